#include "agent/waiting_line.h"

#include <unistd.h>

#include <utility>

namespace ddprun {

using std::chrono::seconds;

WaitingLine::WaitingLine(asio::io_context& io, LogPipes& pipes)
    : pipes_(pipes), lives_(isatty(STDERR_FILENO)), second_(io) {}

void WaitingLine::tell(const std::string& text) {
  const bool known = text == text_;
  change(text);
  if (!known && !lives_) pipes_.print("ddprun: " + text + ".\n");
}

void WaitingLine::tell_trouble(const std::string& text) {
  change(text);
  if (troubles_.insert(text).second && !lives_) pipes_.print("ddprun: " + text + ".\n");
}

void WaitingLine::over() {
  second_.cancel();
  troubles_.clear();
  if (!std::exchange(text_, {}).empty() && lives_) pipes_.show({});
}

Duration WaitingLine::so_far() const { return text_.empty() ? Duration::zero() : Clock::now() - since_; }

void WaitingLine::change(const std::string& text) {
  const bool begins = text_.empty();
  text_ = text;
  if (!begins) return;
  since_ = Clock::now();
  if (lives_) count_seconds();
}

// Not before the first second is over: most waits are shorter.
void WaitingLine::count_seconds() {
  const auto so_far = std::chrono::duration_cast<seconds>(Clock::now() - since_);
  if (so_far > seconds(0)) pipes_.show("ddprun: " + text_ + ", " + std::to_string(so_far.count()) + " s");
  second_.expires_at(since_ + so_far + seconds(1));
  second_.async_wait([this](const asio::error_code& error) {
    if (!error && !text_.empty()) count_seconds();
  });
}

}  // namespace ddprun
