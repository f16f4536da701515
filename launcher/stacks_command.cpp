#include "launcher/stacks_command.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "agent/process/process_table.h"
#include "launcher/exit_codes.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/print_line.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kUsageText =
    "usage: ddprun stacks [JOB]\n"
    "Prints what every worker of a running job does now, on all its nodes, with the stacks of its threads; stops "
    "nothing.\n"
    "JOB is the job's --rdzv-id or its beginning, or the process id of a ddprun on this machine; it can be left out "
    "if\n"
    "one job runs here. To run a program of that name: ddprun ./stacks\n";

constexpr std::chrono::seconds kAnswerLimit{15};

int complain(const std::string& sentence, int code) {
  print_line(stderr, "ddprun stacks: " + sentence);
  return code;
}

std::vector<agent::StacksAddress> own_agents() {
  std::ifstream table("/proc/net/unix");
  std::vector<agent::StacksAddress> out =
      agent::listening_agents({std::istreambuf_iterator<char>(table), std::istreambuf_iterator<char>()});
  if (geteuid() != 0) std::erase_if(out, [](const auto& one) { return one.user != geteuid(); });
  return out;
}

// A user may name ddprun itself, whose child the agent is.
bool is_process(const agent::StacksAddress& agent, const std::string& pid) {
  if (pid == std::to_string(agent.agent)) return true;
  const auto process = agent::task_stat(agent.agent);
  return process && pid == std::to_string(process->parent);
}

Fd connected(const agent::StacksAddress& agent) {
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  const std::string name = socket_name(agent);
  std::memcpy(place.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr*>(&place), size) != 0) return Fd();
  // Anybody may take a name: what answers has to be of the user that it names.
  ucred peer{};
  socklen_t peer_size = sizeof peer;
  const timeval limit{kAnswerLimit.count(), 0};
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0 || peer.uid != agent.user ||
      setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0)
    return Fd();
  return fd;
}

}  // namespace

Choice choose_job(const std::vector<agent::StacksAddress>& agents, const std::string& job) {
  if (agents.empty()) return {nullptr, "no job of yours runs on this machine."};
  const agent::StacksAddress* found = nullptr;
  std::set<std::string> jobs;
  for (const agent::StacksAddress& one : agents) {
    if (one.run_id == job.substr(0, agent::kNamedRunIdMax)) return {&one, ""};
    if (!job.empty() && !one.run_id.starts_with(job) && !is_process(one, job)) continue;
    jobs.insert(one.run_id);
    found = &one;
  }
  if (jobs.size() == 1) return {found, ""};
  if (jobs.empty())
    for (const agent::StacksAddress& one : agents) jobs.insert(one.run_id);
  std::string list;
  for (const std::string& id : jobs) list += (list.empty() ? "" : ", ") + id;
  return {nullptr, found ? "several jobs run here; name one of them: " + list + "."
                         : "no job here is " + job + "; there are: " + list + "."};
}

int show_stacks(const std::vector<std::string>& words) {
  if (words.size() > 1 || (!words.empty() && words.front().starts_with('-'))) {
    const bool help = words.front() == "--help" || words.front() == "-h";
    print_text(help ? stdout : stderr, kUsageText);
    return help ? kSuccess : kUsage;
  }
  const std::vector<agent::StacksAddress> agents = own_agents();
  const Choice choice = choose_job(agents, words.empty() ? "" : words.front());
  if (!choice.agent) return complain(choice.complaint, kUsage);
  const Fd fd = connected(*choice.agent);
  if (!fd) return complain(std::string("its agent cannot be reached: ") + std::strerror(errno) + ".", kInternalError);
  char bytes[1 << 16];
  bool any = false;
  for (ssize_t got = 0; (got = read(fd.get(), bytes, sizeof bytes)) > 0; any = true)
    std::fwrite(bytes, 1, static_cast<std::size_t>(got), stdout);
  return any ? kSuccess : complain("the job has ended.", kInternalError);
}

}  // namespace ddprun::launcher
