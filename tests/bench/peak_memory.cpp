// Runs a command and prints, in KiB, the peak resident memory of the largest process in its tree, as far as it was
// waited for. A program of its own, because a process begins its life with the peak of the one that forked it: measured
// from Python, everything is as large as Python.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc < 2) return std::fputs("usage: peak_memory COMMAND ...\n", stderr), 2;
  const pid_t child = fork();
  if (child == 0) {
    execvp(argv[1], argv + 1);
    std::perror(argv[1]);
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) < 0) return std::perror("peak_memory"), 1;
  std::printf("%ld\n", usage.ru_maxrss);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
