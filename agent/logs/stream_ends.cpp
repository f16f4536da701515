#include "agent/logs/stream_ends.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rendezvous/base/error.h"

namespace ddprun::agent {

StreamEnds open_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error("cannot open a pipe for a worker's output", std::strerror(errno), "Raise the limit of open files.");
  return {Fd(ends[0]), Fd(ends[1])};
}

StreamEnds open_like(int console_fd) {
  termios raw{};
  if (console_fd < 0 || tcgetattr(console_fd, &raw) != 0) return open_pipe();
  cfmakeraw(&raw);  // our own terminal processes the bytes
  int master = -1, slave = -1;
  if (openpty(&master, &slave, nullptr, &raw, nullptr) != 0) return open_pipe();
  for (const int fd : {master, slave}) fcntl(fd, F_SETFD, FD_CLOEXEC);
  copy_size(console_fd, master);
  return {Fd(master), Fd(slave), true};
}

void copy_size(int from_terminal, int to_terminal) {
  winsize size{};
  if (ioctl(from_terminal, TIOCGWINSZ, &size) == 0) ioctl(to_terminal, TIOCSWINSZ, &size);
}

std::size_t columns_of(int terminal) {
  winsize size{};
  return ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace ddprun::agent
