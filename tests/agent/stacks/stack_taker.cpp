// Takes the stacks of running processes, and says how long that took: milliseconds, the longest pause of a thread in
// milliseconds, threads, threads without frames, native frames.
//   stack_taker [--python] [--print] PID...
//   stack_taker [--python] [--print] --start PROGRAM [ARGUMENT...]   starts one first, and waits for its first line
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/stacks/take_stacks.h"
#include "agent/stacks/top_frame.h"
#include "rendezvous/base/time.h"

using namespace ddprun;
using namespace ddprun::agent;

namespace {

double milliseconds(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

std::vector<std::string> environment() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry) out.emplace_back(*entry);
  return out;
}

pid_t start(char** argv) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  pid_t pid = 0;
  if (posix_spawn(&pid, argv[0], &files, nullptr, argv, environ) != 0) std::abort();
  posix_spawn_file_actions_destroy(&files);
  char letter = 0;
  while (letter != '\n' && read(ends[0], &letter, 1) == 1) {
  }
  return pid;
}

void print(const ProcessStacks& stacks) {
  std::fputs(to_text(stacks).c_str(), stdout);
  if (const auto top = top_frame(stacks)) std::printf("%s\n", in_words(*top).c_str());
}

void summarize(const std::vector<ProcessStacks>& all, Duration took) {
  Duration pause = Duration::zero();
  std::size_t threads = 0, missing = 0, frames = 0;
  for (const ProcessStacks& stacks : all) {
    pause = std::max(pause, stacks.longest_pause);
    threads += stacks.threads.size();
    for (const ThreadStack& thread : stacks.threads) {
      frames += thread.frames.size();
      missing += thread.frames.empty();
    }
  }
  std::printf("%.1f %.3f %zu %zu %zu\n", milliseconds(took), milliseconds(pause), threads, missing, frames);
}

}  // namespace

int main(int argc, char** argv) {
  StackOptions options{.environment = environment(), .python = false};
  bool prints = false;
  pid_t started = 0;
  std::vector<pid_t> pids;
  for (int i = 1; i < argc && started == 0; ++i) {
    const std::string word = argv[i];
    if (word == "--python")
      options.python = true;
    else if (word == "--print")
      prints = true;
    else
      pids.push_back(word == "--start" ? started = start(argv + i + 1) : std::atoi(word.c_str()));
  }
  const TimePoint begin = Clock::now();
  const std::vector<ProcessStacks> all = take_stacks(pids, std::chrono::seconds(60), options);
  const Duration took = Clock::now() - begin;
  if (prints) std::for_each(all.begin(), all.end(), print);
  summarize(all, took);
  if (started == 0) return 0;
  kill(started, SIGKILL);
  waitpid(started, nullptr, 0);
}
