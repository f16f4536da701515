// Starting workers beside a bare posix_spawn loop: microseconds until the last of N is started, in rounds in which both
// take turns. One line for each round: "N ours bare bare-with-setsid"; workers are sessions of their own, and on a busy
// machine the kernel shares the processor out by session.
//   spawn_bench [ROUNDS]
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "agent/channel/channel_page.h"
#include "agent/process/process.h"
#include "rendezvous/base/time.h"

using namespace ddprun;
using namespace ddprun::agent;

namespace {

constexpr const char* kProgram = "/bin/sleep";
const std::vector<std::string> kArguments{"sleep", "60"};

double microseconds(Duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

void end_all(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) kill(pid, SIGKILL);
  for (const pid_t pid : pids) waitpid(pid, nullptr, 0);
}

double ours(int count) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry; ++entry) environment.emplace_back(*entry);
  std::vector<Spawned> workers;
  std::vector<pid_t> pids;
  const TimePoint begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    const ChannelPage page = ChannelPage::create(Clock::now());
    SpawnRequest request{kProgram, kArguments, environment};
    request.passed = {{page.fd(), kChannelFd}};
    workers.push_back(spawn(request));
  }
  const double took = microseconds(Clock::now() - begin);
  for (const Spawned& worker : workers) pids.push_back(worker.pid);
  end_all(pids);
  return took;
}

double bare(int count, short flags) {
  std::vector<pid_t> pids(static_cast<std::size_t>(count));
  std::vector<char*> arguments;
  for (const std::string& word : kArguments) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, flags);
  const TimePoint begin = Clock::now();
  for (pid_t& pid : pids)
    if (posix_spawn(&pid, kProgram, nullptr, &attributes, arguments.data(), environ) != 0) std::abort();
  const double took = microseconds(Clock::now() - begin);
  end_all(pids);
  return took;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  for (const int count : {1, 2, 8, 64, 256})
    for (int i = 0; i < rounds; ++i) {
      const double our_time = ours(count), bare_time = bare(count, 0);
      std::printf("%d %.1f %.1f %.1f\n", count, our_time, bare_time, bare(count, POSIX_SPAWN_SETSID));
    }
}
