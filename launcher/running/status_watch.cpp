#include "launcher/running/status_watch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <optional>
#include <thread>

#include "launcher/config/exit_codes.h"
#include "launcher/config/inputs.h"
#include "launcher/view/keys.h"
#include "launcher/view/terminal.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnswerPatience = 50ms;  // while an answer is under way

std::vector<StyledLine> lines_of(const StatusLook& look, Size size) {
  std::vector<StyledLine> out;
  for (const std::string& line : split(look.text, '\n'))
    out.push_back(StyledLine(line, line.starts_with("state:") ? look.state : Style::plain).cut(size.columns));
  const std::size_t body = size.rows > 1 ? size.rows - 1 : 0;
  out.resize(body);
  if (size.rows > 0) out.push_back(StyledLine("q: quit", Style::dim).cut(size.columns));
  return out;
}

bool wants_to_quit(const std::string& typed) {
  const std::vector<Key> keys = keys_of(typed);
  return std::find(keys.begin(), keys.end(), Key::quit) != keys.end();
}

// Returns the last text.
std::string watch_in_place(const std::function<StatusLook(std::size_t)>& look, Duration every,
                           std::future<StatusLook>& left_behind) {
  StatusLook shown = look(output_columns());
  Terminal terminal(terminal_look(own_environment()));
  std::future<StatusLook> next;
  TimePoint ask_at = Clock::now() + every;
  for (bool quits = false; !quits && !shown.is_over;) {
    const Size size = terminal.size();
    terminal.show({lines_of(shown, size)}, size);
    if (!next.valid() && Clock::now() >= ask_at) {
      next = std::async(std::launch::async, look, size.columns);
      ask_at = Clock::now() + every;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(ask_at - Clock::now());
    bool input_ended = false;
    const std::string typed =
        terminal.typed(next.valid() ? kAnswerPatience : std::clamp(left, 0ms, 1000ms), input_ended);
    quits = input_ended || wants_to_quit(typed);
    if (next.valid() && next.wait_for(0s) == std::future_status::ready) shown = next.get();
  }
  // A question that is under way would delay the end, and nobody wants its answer.
  if (next.valid()) left_behind = std::move(next);
  return shown.text;
}

}  // namespace

void watch_status(const std::function<StatusLook(std::size_t)>& look, Duration every) {
  if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
    std::future<StatusLook> left_behind;
    print_text(stdout, watch_in_place(look, every, left_behind));
    std::fflush(stdout);
    if (left_behind.valid()) std::_Exit(kSuccess);
    return;
  }
  for (TimePoint next = Clock::now() + every;; next += every) {
    const StatusLook now = look(output_columns());
    print_text(stdout, now.text);
    std::fflush(stdout);
    if (now.is_over) return;
    print_line(stdout, "");
    std::this_thread::sleep_until(next);
    next = std::max(next, Clock::now());
  }
}

}  // namespace ddprun::launcher
