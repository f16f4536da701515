// A worker for the restart bench: writes the time of its first line into FOLDER/PID, then only sleeps.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (argc != 2) return std::fputs("usage: stamp_worker FOLDER\n", stderr), 2;
  const std::string name = std::string(argv[1]) + "/" + std::to_string(getpid());
  const std::string text = std::to_string(now.tv_sec * 1'000'000'000LL + now.tv_nsec) + "\n";
  const int file = open((name + ".new").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return std::perror("stamp_worker"), 1;
  close(file);
  if (std::rename((name + ".new").c_str(), name.c_str()) != 0) return std::perror("stamp_worker"), 1;
  for (;;) pause();
}
