// A mark in every worker's environment that says which job and which agent it belongs to, inherited by all it forks.
//
// keeper.h ends everything as long as the keeper or the agent lives. Where both are SIGKILLed at once, workers die with
// them but their descendants may not; the next agent of the same job on this node finds those by the mark and ends
// them (leftovers.h).
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

namespace ddprun {

constexpr const char* kCookieVariable = "DDPRUN_JOB";

struct JobCookie {
  std::string run_id;
  pid_t agent = 0;
  unsigned long long agent_started = 0;  // clock ticks since boot, as /proc/<pid>/stat has it: tells reused pids apart
  unsigned long long pid_namespace = 0;  // its inode: pids mean nothing in another one

  friend bool operator==(const JobCookie&, const JobCookie&) = default;
};

std::string to_string(const JobCookie& cookie);
std::optional<JobCookie> parse_cookie(const std::string& text);

// This process's own.
JobCookie own_cookie(const std::string& run_id);

// False also where it is dying or dead and not yet reaped.
bool agent_lives(const JobCookie& cookie);

}  // namespace ddprun
