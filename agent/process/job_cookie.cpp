#include "agent/process/job_cookie.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "agent/process/files/file_content.h"
#include "agent/process/process_table.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

long long own_shift() {  // an agent stays in its time namespace: only what it starts may be in another one
  static const long long shift = shift_of_start_times(file_content("/proc/self/timens_offsets"), sysconf(_SC_CLK_TCK));
  return shift;
}

// 0 if there is no such process, or it is dying or not yet reaped.
unsigned long long start_time(pid_t pid) {
  const auto process = task_stat(pid);
  if (!process || process->is_dead() || process->is_exiting()) return 0;
  return process->start_time - static_cast<unsigned long long>(own_shift());
}

unsigned long long pid_namespace() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

std::string to_string(const JobCookie& cookie) {
  return std::to_string(cookie.agent) + ":" + std::to_string(cookie.agent_started) + ":" +
         std::to_string(cookie.pid_namespace) + ":" + cookie.run_id;
}

std::optional<JobCookie> parse_cookie(const std::string& text) {
  std::istringstream in(text);
  JobCookie cookie;
  char colon[3] = {};
  if (!(in >> cookie.agent >> colon[0] >> cookie.agent_started >> colon[1] >> cookie.pid_namespace >> colon[2]))
    return {};
  if (std::string(colon, 3) != ":::") return {};
  std::getline(in, cookie.run_id, '\0');
  return cookie;
}

long long shift_of_start_times(const std::string& timens_offsets, long ticks_a_second) {
  constexpr long long kNanosecondsInSecond = 1'000'000'000;
  const auto words = words_in(timens_offsets);  // clock, seconds, nanoseconds, and the same again
  for (std::size_t i = 0; i + 2 < words.size(); i += 3)
    if (words[i] == "boottime")
      return std::strtoll(words[i + 1].data(), nullptr, 10) * ticks_a_second +
             std::strtoll(words[i + 2].data(), nullptr, 10) / (kNanosecondsInSecond / ticks_a_second);
  return 0;  // a kernel without time namespaces
}

JobCookie own_cookie(const std::string& run_id) { return {run_id, getpid(), start_time(getpid()), pid_namespace()}; }

// Offsets are not whole ticks: a start time may be one tick off.
bool agent_lives(const JobCookie& cookie) {
  if (cookie.agent_started == 0) return true;  // its agent had no /proc: cannot be determined
  const unsigned long long started = start_time(cookie.agent);
  return started != 0 && started + 1 >= cookie.agent_started && started <= cookie.agent_started + 1;
}

}  // namespace ddprun::agent
