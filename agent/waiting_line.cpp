#include "agent/waiting_line.h"

#include <unistd.h>

#include <utility>

#include "agent/waiting_words.h"

namespace ddprun::agent {

using std::chrono::duration_cast;
using std::chrono::seconds;

WaitingLine::WaitingLine(asio::io_context& io, LogPipes& pipes)
    : pipes_(pipes), lives_(isatty(STDERR_FILENO)), due_(io) {}

void WaitingLine::tell(const std::string& text) {
  if (text == text_) return;
  change(text);
  told_.erase(text);  // the state has returned: print it again
  print_once(text);
}

void WaitingLine::tell_trouble(const std::string& text, bool certain) {
  change(text);
  if (certain || so_far() >= kPatience) print_once(text);
}

void WaitingLine::over() {
  due_.cancel();
  told_.clear();
  if (!std::exchange(text_, {}).empty() && lives_) pipes_.show({});
}

Duration WaitingLine::so_far() const { return text_.empty() ? Duration::zero() : Clock::now() - since_; }

void WaitingLine::change(const std::string& text) {
  const bool begins = text_.empty();
  text_ = text;
  if (!begins) return;
  since_ = Clock::now();
  lives_ ? count_seconds() : tell_again_in_time();
}

void WaitingLine::print_once(const std::string& text) {
  if (!lives_ && told_.insert(text).second) pipes_.print("ddprun: " + text + ".\n");
}

void WaitingLine::tell_again_in_time() {
  const Duration next = next_reminder(so_far());
  due_.expires_at(since_ + next);
  due_.async_wait([this, next](const asio::error_code& error) {
    if (error || text_.empty()) return;
    if (next > kPatience && told_.contains(text_))
      pipes_.print("ddprun: " + text_ + ", " + std::to_string(duration_cast<seconds>(next).count()) + " s so far.\n");
    print_once(text_);
    tell_again_in_time();
  });
}

// Shown only after the first second: most waits are shorter.
void WaitingLine::count_seconds() {
  const auto so_far = std::chrono::duration_cast<seconds>(Clock::now() - since_);
  if (so_far > seconds(0)) pipes_.show("ddprun: " + text_ + ", " + std::to_string(so_far.count()) + " s");
  due_.expires_at(since_ + so_far + seconds(1));
  due_.async_wait([this](const asio::error_code& error) {
    if (!error && !text_.empty()) count_seconds();
  });
}

}  // namespace ddprun::agent
