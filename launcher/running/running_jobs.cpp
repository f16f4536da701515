#include "launcher/running/running_jobs.h"

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
#include <optional>
#include <set>

#include "agent/process/process_table.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {
namespace {

using agent::AgentAddress;
using Found = std::vector<const RunningAgent*>;

constexpr int kAncestorsMax = 16;
constexpr std::int64_t kMilli = 1000, kNanosecondsInMs = 1'000'000;

// A user may name ddprun itself, whose child the agent is.
bool is_process(const RunningAgent& agent, const std::string& pid) {
  if (agent.process == 0) return false;
  if (pid == std::to_string(agent.process)) return true;
  const auto process = agent::task_stat(agent.process);
  return process && pid == std::to_string(process->parent);
}

Error unreachable(const RunningAgent& agent, const std::string& why) {
  return Error("cannot ask the agent of the job " + visible(agent.address.run_id) + " (process " +
                   std::to_string(agent.process) + ")",
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

// As connect().
int connect_to(const Fd& fd, const AgentAddress& address) {
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  const std::string name = socket_name(address);
  std::memcpy(place.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&place), size);
}

// Who listens at the other end, when it began to.
std::optional<ucred> peer_of(const Fd& fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? std::optional(peer) : std::nullopt;
}

// Empty: nobody listens there any more, or it is somebody else's name for one who takes no connection.
std::optional<RunningAgent> agent_at(const AgentAddress& address) {
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect_to(fd, address) == 0) {
    const auto peer = peer_of(fd);
    return peer ? std::optional(RunningAgent{address, peer->uid, peer->pid}) : std::nullopt;
  }
  if (errno == ECONNREFUSED || agent::user_of(agent::table_entry(address.agent)) != address.user) return {};
  return RunningAgent{address, address.user, address.agent, /*accepts=*/false};  // e.g. its queue is full
}

// Empty: nobody listens there any more.
Fd connected(const RunningAgent& agent, int limit_seconds) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) throw unreachable(agent, std::strerror(errno));
  limit_calls(fd, limit_seconds);
  const bool refused = connect_to(fd, agent.address) != 0;
  if (refused && errno == ECONNREFUSED) return Fd();
  if (refused) throw unreachable(agent, errno == EAGAIN ? not_within(limit_seconds) : std::strerror(errno));
  if (const auto peer = peer_of(fd); !peer || peer->uid != agent.user)
    throw unreachable(agent, "another user has taken its name");
  return fd;
}

// Those for which it holds, if there are any; else all.
template <class Holds>
void prefer(Found& found, Holds holds) {
  Found kept;
  std::copy_if(found.begin(), found.end(), std::back_inserter(kept), [&](const auto* one) { return holds(*one); });
  if (!kept.empty()) found = std::move(kept);
}

// Each once; two users may have given theirs one name.
std::vector<std::string> jobs_of(const Found& agents, uid_t asker) {
  std::set<std::string> jobs;
  for (const RunningAgent* one : agents)
    jobs.insert(visible(one->address.run_id) +
                (one->user == asker ? "" : " (of user " + std::to_string(one->user) + ")"));
  return {jobs.begin(), jobs.end()};
}

Found all_of(const std::vector<RunningAgent>& agents) {
  Found out;
  for (const RunningAgent& one : agents) out.push_back(&one);
  return out;
}

}  // namespace

std::vector<RunningAgent> own_agents() {
  std::ifstream table("/proc/net/unix");
  std::vector<RunningAgent> out;
  for (const AgentAddress& address :
       agent::listening_agents({std::istreambuf_iterator<char>(table), std::istreambuf_iterator<char>()}))
    if (auto one = agent_at(address); one && (one->user == geteuid() || geteuid() == 0)) out.push_back(std::move(*one));
  return out;
}

std::vector<std::string> job_ids(const std::vector<RunningAgent>& agents) { return jobs_of(all_of(agents), geteuid()); }

Choice choose_job(const std::vector<RunningAgent>& agents, const std::string& job, Purpose purpose, uid_t asker) {
  const auto is_own = [&](const RunningAgent& one) { return one.user == asker; };
  const auto is_named = [&](const RunningAgent& one) {
    return one.address.run_id == job.substr(0, agent::kNamedRunIdMax);
  };
  const auto list = [&](const Found& of) { return listed(jobs_of(of, asker), "and") + "."; };
  const bool only_own = job.empty() && purpose == Purpose::act;
  Found found;
  for (const RunningAgent& one : agents)
    if (only_own ? is_own(one) : one.address.run_id.starts_with(job) || is_named(one) || is_process(one, job))
      found.push_back(&one);
  if (found.empty()) {
    const std::string others = agents.empty() ? "." : "; there are: " + list(all_of(agents));
    return {nullptr,
            (agents.empty() || only_own ? "no job of yours runs on this machine" : "no job here is " + visible(job)) +
                others};
  }
  if (!job.empty()) prefer(found, is_named);
  if (!job.empty()) prefer(found, [&](const RunningAgent& one) { return is_process(one, job); });
  prefer(found, is_own);
  const auto accepts = [](const RunningAgent& one) { return one.accepts; };
  if (purpose == Purpose::look) prefer(found, accepts);
  if (jobs_of(found, asker).size() > 1) return {nullptr, "several jobs run here; name one of them: " + list(found)};
  prefer(found, accepts);
  return {found.front(), ""};
}

std::int64_t started_ms(const RunningAgent& agent) {
  const auto stat = agent::task_stat(agent.process);
  if (!stat) return 0;
  timespec since_boot{}, now{};
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  clock_gettime(CLOCK_REALTIME, &now);
  const auto ms = [](const timespec& time) { return time.tv_sec * kMilli + time.tv_nsec / kNanosecondsInMs; };
  const auto started = static_cast<std::int64_t>(stat->start_time) * kMilli / sysconf(_SC_CLK_TCK);
  return ms(now) - ms(since_boot) + started;
}

const RunningAgent* agent_below(const std::vector<RunningAgent>& agents, pid_t process) {
  for (const RunningAgent& one : agents) {
    pid_t ancestor = one.process;
    for (int i = 0; i < kAncestorsMax && ancestor > 1; ++i) {
      if (ancestor == process) return &one;
      const auto stat = agent::task_stat(ancestor);
      ancestor = stat ? stat->parent : 0;
    }
  }
  return nullptr;
}

std::string ask(const RunningAgent& agent, const std::string& request, int limit_seconds) {
  const TimePoint until = Clock::now() + std::chrono::seconds(limit_seconds);
  const Fd fd = connected(agent, limit_seconds);
  if (!fd) return {};
  const std::string line = request + "\n";
  const bool sent = send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
  if (!sent && (errno == EPIPE || errno == ECONNRESET)) return {};  // it has ended meanwhile
  if (!sent) throw unreachable(agent, std::strerror(errno));
  std::string out;
  char bytes[1 << 16];
  ssize_t got = 0;
  while ((got = read(fd.get(), bytes, sizeof bytes)) > 0 && Clock::now() < until)
    out.append(bytes, static_cast<std::size_t>(got));
  if (got > 0 || (got < 0 && errno == EAGAIN)) throw unreachable(agent, not_within(limit_seconds));
  if (got < 0 && errno != ECONNRESET) throw unreachable(agent, std::strerror(errno));
  return out;  // reset: it has ended
}

}  // namespace ddprun::launcher
