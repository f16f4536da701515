// A mark in every worker's environment that says which job and which agent it belongs to, inherited by all it forks.
//
// keeper.h ends everything as long as the keeper or the agent lives. Where both are SIGKILLed at once, workers die with
// them but their descendants may not; the next agent of the same job on this node finds those by the mark and ends
// them (leftovers.h).
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

namespace ddprun::agent {

constexpr const char* kCookieVariable = "DDPRUN_JOB";

struct JobCookie {
  std::string run_id;
  pid_t agent = 0;
  // Clock ticks since boot, the same in every time namespace: tells reused pids apart.
  unsigned long long agent_started = 0;
  unsigned long long pid_namespace = 0;  // its inode: pids mean nothing in another one

  friend bool operator==(const JobCookie&, const JobCookie&) = default;
};

std::string to_string(const JobCookie& cookie);
std::optional<JobCookie> parse_cookie(const std::string& text);

// By how many clock ticks /proc/<pid>/stat shows later starts here than they are, as /proc/self/timens_offsets tells.
long long shift_of_start_times(const std::string& timens_offsets, long ticks_a_second);

// This process's own.
JobCookie own_cookie(const std::string& run_id);

// False also where it is dying or dead and not yet reaped; true where nobody can tell.
bool agent_lives(const JobCookie& cookie);

}  // namespace ddprun::agent
