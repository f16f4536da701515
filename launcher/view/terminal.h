// A terminal in which a program shows whole screens and reads single keys; as it was, once destroyed.
#pragma once
#include <termios.h>

#include <chrono>
#include <string>

#include "launcher/view/terminal_line.h"
#include "launcher/view/terminal_look.h"
#include "launcher/view/top_view.h"

namespace ddprun::launcher {

class Terminal {
 public:
  // stdin and stdout are terminals. Throws std::system_error.
  explicit Terminal(const TerminalLook& look);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Size size() const;
  void show(const TopView::Frame& frame, Size size);
  // What is typed within that time, or nothing; also nothing at once if the size changes. `ended`: nobody can type any
  // more.
  std::string typed(std::chrono::milliseconds within, bool& ended);

 private:
  termios before_{};
  TerminalLook look_;
};

// Of stdout; kAnyWidth if that is no terminal.
std::size_t output_columns();

}  // namespace ddprun::launcher
