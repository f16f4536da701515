// A mark in every worker's environment that names its job and agent, inherited by all processes it forks.
//
// keeper.h ends everything as long as the keeper or the agent lives. If both get SIGKILL at once, workers die with them
// but their descendants may not; the next agent of the same job on this node finds those by the mark and ends them
// (leftovers.h).
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

namespace ddprun::agent {

constexpr const char* kCookieVariable = "DDPRUN_JOB";

struct JobCookie {
  std::string run_id;
  pid_t agent = 0;
  // Clock ticks since boot, the same in every time namespace: distinguishes reused pids.
  unsigned long long agent_started = 0;
  unsigned long long pid_namespace = 0;  // its inode: pids have no meaning in another one

  friend bool operator==(const JobCookie&, const JobCookie&) = default;
};

std::string to_string(const JobCookie& cookie);
std::optional<JobCookie> parse_cookie(const std::string& text);

// How many clock ticks too late /proc/<pid>/stat shows start times here, from /proc/self/timens_offsets.
long long shift_of_start_times(const std::string& timens_offsets, long ticks_a_second);

// This process's own.
JobCookie own_cookie(const std::string& run_id);

// False also if it is dying or not yet reaped; true if it cannot be determined.
bool agent_lives(const JobCookie& cookie);

}  // namespace ddprun::agent
