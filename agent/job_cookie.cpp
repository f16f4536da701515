#include "agent/job_cookie.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "agent/file_content.h"

namespace ddprun {
namespace {

constexpr int kFlagsField = 9, kStartTimeField = 22;  // of /proc/<pid>/stat, proc(5)
constexpr unsigned long kExiting = 0x4;               // PF_EXITING, include/linux/sched.h

// 0 where there is no such process, or one that is dying or dead and not yet reaped.
unsigned long long start_time(pid_t pid) {
  const std::string stat = file_content("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string state, field;
  fields >> state;
  if (state == "Z" || state == "X") return 0;
  for (int i = 4; i <= kStartTimeField; ++i) {
    fields >> field;
    if (i == kFlagsField && (std::strtoul(field.c_str(), nullptr, 10) & kExiting)) return 0;
  }
  return std::strtoull(field.c_str(), nullptr, 10);
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

JobCookie own_cookie(const std::string& run_id) { return {run_id, getpid(), start_time(getpid()), pid_namespace()}; }

bool agent_lives(const JobCookie& cookie) { return start_time(cookie.agent) == cookie.agent_started; }

}  // namespace ddprun
