// The least a launcher can do: posix_spawn COUNT times, then wait for each.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 3) return std::fputs("usage: spawn_loop COUNT PROGRAM ...\n", stderr), 2;
  std::vector<pid_t> pids(static_cast<std::size_t>(std::atoi(argv[1])));
  for (pid_t& pid : pids)
    if (posix_spawn(&pid, argv[2], nullptr, nullptr, argv + 2, environ) != 0) return std::perror(argv[2]), 1;
  for (const pid_t pid : pids) waitpid(pid, nullptr, 0);
}
