#include "launcher/running_jobs.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <set>

#include "agent/process/process_table.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {
namespace {

using agent::AgentAddress;

constexpr int kAncestorsMax = 16;
constexpr std::int64_t kMilli = 1000, kNanosecondsInMs = 1'000'000;

// A user may name ddprun itself, whose child the agent is.
bool is_process(const AgentAddress& agent, const std::string& pid) {
  if (pid == std::to_string(agent.agent)) return true;
  const auto process = agent::task_stat(agent.agent);
  return process && pid == std::to_string(process->parent);
}

Error unreachable(const AgentAddress& agent, const std::string& why) {
  return Error("cannot ask the agent of the job " + agent.run_id + " (process " + std::to_string(agent.agent) + ")",
               why);
}

std::string not_within(int limit_seconds) {
  return "it has not answered within " + std::to_string(limit_seconds) + " s";
}

// Of one call that waits: an agent that is stuck accepts nobody.
void limit_calls(const Fd& fd, int limit_seconds) {
  const timeval limit{limit_seconds, 0};
  for (const int of : {SO_SNDTIMEO, SO_RCVTIMEO}) setsockopt(fd.get(), SOL_SOCKET, of, &limit, sizeof limit);
}

Fd connected(const AgentAddress& agent, int limit_seconds) {
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  const std::string name = socket_name(agent);
  std::memcpy(place.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) throw unreachable(agent, std::strerror(errno));
  limit_calls(fd, limit_seconds);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&place), size) != 0)
    throw unreachable(agent, errno == EAGAIN ? not_within(limit_seconds) : std::strerror(errno));
  // Anybody may take a name: what answers has to be of the user that it names.
  ucred peer{};
  socklen_t peer_size = sizeof peer;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0 || peer.uid != agent.user)
    throw unreachable(agent, "another user has taken its name");
  return fd;
}

}  // namespace

std::vector<AgentAddress> own_agents() {
  std::ifstream table("/proc/net/unix");
  std::vector<AgentAddress> out =
      agent::listening_agents({std::istreambuf_iterator<char>(table), std::istreambuf_iterator<char>()});
  if (geteuid() != 0) std::erase_if(out, [](const auto& one) { return one.user != geteuid(); });
  return out;
}

std::vector<std::string> job_ids(const std::vector<AgentAddress>& agents) {
  std::set<std::string> ids;
  for (const AgentAddress& one : agents) ids.insert(one.run_id);
  return {ids.begin(), ids.end()};
}

Choice choose_job(const std::vector<AgentAddress>& agents, const std::string& job) {
  if (agents.empty()) return {nullptr, "no job of yours runs on this machine."};
  const AgentAddress* found = nullptr;
  std::set<std::string> jobs;
  for (const AgentAddress& one : agents) {
    if (one.run_id == job.substr(0, agent::kNamedRunIdMax)) return {&one, ""};
    if (!job.empty() && !one.run_id.starts_with(job) && !is_process(one, job)) continue;
    jobs.insert(one.run_id);
    found = &one;
  }
  if (jobs.size() == 1) return {found, ""};
  std::string list;
  for (const std::string& id : jobs.empty() ? job_ids(agents) : std::vector<std::string>(jobs.begin(), jobs.end()))
    list += (list.empty() ? "" : ", ") + id;
  return {nullptr, found ? "several jobs run here; name one of them: " + list + "."
                         : "no job here is " + job + "; there are: " + list + "."};
}

std::int64_t started_ms(const AgentAddress& agent) {
  const auto stat = agent::task_stat(agent.agent);
  if (!stat) return 0;
  timespec since_boot{}, now{};
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  clock_gettime(CLOCK_REALTIME, &now);
  const auto ms = [](const timespec& time) { return time.tv_sec * kMilli + time.tv_nsec / kNanosecondsInMs; };
  const auto started = static_cast<std::int64_t>(stat->start_time) * kMilli / sysconf(_SC_CLK_TCK);
  return ms(now) - ms(since_boot) + started;
}

const AgentAddress* agent_below(const std::vector<AgentAddress>& agents, pid_t process) {
  for (const AgentAddress& one : agents) {
    pid_t ancestor = one.agent;
    for (int i = 0; i < kAncestorsMax && ancestor > 1; ++i) {
      if (ancestor == process) return &one;
      const auto stat = agent::task_stat(ancestor);
      ancestor = stat ? stat->parent : 0;
    }
  }
  return nullptr;
}

std::string ask(const AgentAddress& agent, const std::string& request, int limit_seconds) {
  const TimePoint until = Clock::now() + std::chrono::seconds(limit_seconds);
  const Fd fd = connected(agent, limit_seconds);
  const std::string line = request + "\n";
  if (send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    throw unreachable(agent, std::strerror(errno));
  std::string out;
  char bytes[1 << 16];
  ssize_t got = 0;
  while ((got = read(fd.get(), bytes, sizeof bytes)) > 0 && Clock::now() < until)
    out.append(bytes, static_cast<std::size_t>(got));
  if (got > 0 || (got < 0 && errno == EAGAIN)) throw unreachable(agent, not_within(limit_seconds));
  if (got < 0) throw unreachable(agent, std::strerror(errno));
  return out;
}

}  // namespace ddprun::launcher
