#include "launcher/view/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace ddprun::launcher {
namespace {

// As xterm and all that follow it: the other screen, so that the shell's lines are there again afterwards.
constexpr const char* kBegin = "\x1b[?1049h\x1b[?25l";
constexpr const char* kEnd = "\x1b[?25h\x1b[?1049l";
constexpr const char* kHome = "\x1b[H";
constexpr const char* kClearLine = "\x1b[K";

void write_all(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (wrote < 0 && errno != EINTR) return;
    if (wrote > 0) at += static_cast<std::size_t>(wrote);
  }
}

}  // namespace

Terminal::Terminal(const TerminalLook& look) : look_(look) {
  if (tcgetattr(STDIN_FILENO, &before_) != 0) throw std::system_error(errno, std::generic_category());
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) != 0) throw std::system_error(errno, std::generic_category());
  struct sigaction interrupts {};
  interrupts.sa_handler = [](int) {};  // without SA_RESTART: it ends poll()
  sigaction(SIGWINCH, &interrupts, nullptr);
  write_all(kBegin);
}

Terminal::~Terminal() {
  write_all(kEnd);
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

Size Terminal::size() const {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return {};
  return {size.ws_row, size.ws_col};
}

void Terminal::show(const TopView::Frame& frame, Size size) {
  std::string out = kHome;
  for (std::size_t i = 0; i < frame.lines.size(); ++i) {
    const std::string line = with_escapes(frame.lines[i], frame.selected == i, size.columns, look_);
    // A full line leaves the cursor on its last character, which would be cleared.
    out += frame.lines[i].width() < size.columns && frame.selected != i ? line + kClearLine : line;
    if (i + 1 < size.rows) out += "\r\n";
  }
  write_all(out + "\x1b[J");
}

std::string Terminal::typed(std::chrono::milliseconds within, bool& ended) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const int ready = poll(&input, 1, static_cast<int>(within.count()));
  if (ready <= 0) return {};
  std::array<char, 256> bytes{};
  const ssize_t got = read(STDIN_FILENO, bytes.data(), bytes.size());
  ended = got <= 0;
  return got > 0 ? std::string(bytes.data(), static_cast<std::size_t>(got)) : "";
}

std::size_t output_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 ? size.ws_col : kAnyWidth;
}

}  // namespace ddprun::launcher
