#include "agent/link/waiting_line.h"

#include <unistd.h>

#include <utility>

#include "agent/link/waiting_message.h"

namespace ddprun::agent {

using std::chrono::duration_cast;
using std::chrono::seconds;

WaitingLine::WaitingLine(asio::io_context& io, LogPipes& pipes)
    : pipes_(pipes), on_terminal_(isatty(STDERR_FILENO)), timer_(io) {}

void WaitingLine::show(const std::string& text) {
  if (text == text_) return;
  change(text);
  printed_.erase(text);  // the state has returned: print it again
  print_once(text);
}

void WaitingLine::show_reason(const std::string& text, bool certain) {
  change(text);
  if (certain || elapsed() >= kMessageDelay) print_once(text);
}

void WaitingLine::end() {
  timer_.cancel();
  printed_.clear();
  if (!std::exchange(text_, {}).empty() && on_terminal_) pipes_.show({});
}

Duration WaitingLine::elapsed() const { return text_.empty() ? Duration::zero() : Clock::now() - since_; }

void WaitingLine::change(const std::string& text) {
  const bool begins = text_.empty();
  text_ = text;
  if (!begins) return;
  since_ = Clock::now();
  on_terminal_ ? count_seconds() : schedule_reminder();
}

void WaitingLine::print_once(const std::string& text) {
  if (!on_terminal_ && printed_.insert(text).second) pipes_.print("ddprun: " + text + ".\n");
}

void WaitingLine::schedule_reminder() {
  const Duration next = next_reminder(elapsed());
  timer_.expires_at(since_ + next);
  timer_.async_wait([this, next](const asio::error_code& error) {
    if (error || text_.empty()) return;
    if (next > kMessageDelay && printed_.contains(text_))
      pipes_.print("ddprun: " + text_ + ", " + std::to_string(duration_cast<seconds>(next).count()) + " s so far.\n");
    print_once(text_);
    schedule_reminder();
  });
}

// Shown only after the first second: most waits are shorter.
void WaitingLine::count_seconds() {
  const auto so_far = std::chrono::duration_cast<seconds>(Clock::now() - since_);
  if (so_far > seconds(0)) pipes_.show("ddprun: " + text_ + ", " + std::to_string(so_far.count()) + " s");
  timer_.expires_at(since_ + so_far + seconds(1));
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error && !text_.empty()) count_seconds();
  });
}

}  // namespace ddprun::agent
