#include "trainer/progress.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>

namespace ddprun::train {
namespace {

constexpr std::chrono::milliseconds kBarPeriod{50};  // 20 updates a second
constexpr int kBarWidth = 24;

template <class... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, arguments...);
  return text;
}

double accuracy(std::int64_t correct, std::int64_t tested) {
  return tested ? static_cast<double>(correct) / static_cast<double>(tested) : 0;
}

long long wide(std::int64_t number) { return number; }

// "test loss 1.2345, accuracy 0.9529 (283 of 297), ", the known parts of it
std::string result_text(std::optional<double> test_loss, std::int64_t correct, std::int64_t tested) {
  return (test_loss ? format("test loss %.4f, ", *test_loss) : "") +
         (tested ? format("accuracy %.4f (%lld of %lld), ", accuracy(correct, tested), wide(correct), wide(tested))
                 : "");
}

// 1:05, 2:03:59
std::string in_minutes(double seconds) {
  const long long all = std::llround(std::min(seconds, 3.6e8));
  return all < 3600 ? format("%lld:%02lld", all / 60, all % 60)
                    : format("%lld:%02lld:%02lld", all / 3600, all / 60 % 60, all % 60);
}

// As of one rank, where nobody reads the lines any more (`train | head`): with several, Gloo wants SIGPIPE ignored.
void flush(std::FILE* out) {
  if (std::fflush(out) == 0 || errno != EPIPE) return;
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
}

}  // namespace

// Nine digits distinguish any two floats, so that logs can be compared bit for bit.
std::string line_of(const StepReport& s) {
  return format("epoch %lld step %lld loss %.9g", wide(s.epoch), wide(s.step), s.loss);
}

std::string line_of(const EpochReport& e) {
  return format("epoch %lld of %lld: loss %.4f, %s%.0f samples/s", wide(e.epoch), wide(e.epochs), e.loss,
                e.evaluated ? result_text(e.test_loss, e.correct, e.tested).c_str() : "", e.samples_per_second);
}

std::string line_of(const RunReport& r) {
  return format("done: %lld %s, %s%lld samples in %.3f s: %.0f samples/s", wide(r.epochs),
                r.epochs == 1 ? "epoch" : "epochs", result_text(r.test_loss, r.correct, r.tested).c_str(),
                wide(r.samples), r.time.count(), static_cast<double>(r.samples) / std::max(r.time.count(), 1e-9));
}

std::string line_of(const std::vector<RankPart>& parts, bool classified) {
  std::string line;
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    line += (rank ? ", rank " : "rank ") + std::to_string(rank) +
            (classified ? ": n_correct " + std::to_string(parts[rank].correct) + " of" : ":") + " n_obs " +
            std::to_string(parts[rank].observed);
  return line;
}

std::string bar_of(const StepReport& s, int width) {
  const auto filled = static_cast<std::size_t>(width * s.step / s.steps);
  return format("epoch %lld [%s%s] %lld/%lld loss %.4f, %.0f samples/s, %s left", wide(s.epoch),
                std::string(filled, '=').c_str(), std::string(static_cast<std::size_t>(width) - filled, ' ').c_str(),
                wide(s.step), wide(s.steps), s.loss, s.samples_per_second, in_minutes(s.seconds_left).c_str());
}

bool Progress::wants(std::int64_t step, std::int64_t steps, TimePoint now) const {
  if (style_ == Style::silent) return false;
  if (log_every_ > 0) return step % log_every_ == 0;
  return style_ == Style::terminal && (step == steps || now - bar_time_ >= kBarPeriod);
}

void Progress::step(const StepReport& report, TimePoint now) {
  if (!wants(report.step, report.steps, now)) return;
  if (log_every_ > 0) return line(line_of(report));
  std::fprintf(out_, "\r%s\x1b[K", bar_of(report, kBarWidth).c_str());
  flush(out_);
  bar_shown_ = true;
  bar_time_ = now;
}

void Progress::line(const std::string& text) {
  if (style_ == Style::silent) return;
  clear_bar();
  std::fprintf(out_, "%s\n", text.c_str());
  flush(out_);
}

void Progress::clear_bar() {
  if (bar_shown_) std::fputs("\r\x1b[K", out_);
  bar_shown_ = false;
}

}  // namespace ddprun::train
