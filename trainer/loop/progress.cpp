#include "trainer/loop/progress.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>

#include "rendezvous/base/loss_text.h"

namespace ddprun::train {
namespace {

constexpr std::chrono::milliseconds kBarPeriod{50};  // 20 updates a second
constexpr std::size_t kBarMin = 4, kBarMax = 24;

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

// "accuracy 0.9529 (283 of 297), " or "test loss 1.234, accuracy 0.9529, ", the known parts of it. Of a text's
// characters the counts say nothing, and the line fits 80 columns without.
std::string result_text(std::optional<double> test_loss, std::int64_t correct, std::int64_t tested) {
  if (!tested) return test_loss ? "test loss " + loss_text(*test_loss) + ", " : "";
  if (test_loss)
    return format("test loss %s, accuracy %.4f, ", loss_text(*test_loss).c_str(), accuracy(correct, tested));
  return format("accuracy %.4f (%lld of %lld), ", accuracy(correct, tested), wide(correct), wide(tested));
}

// Of the terminal behind `out`; 80 if it has no size.
std::size_t columns_of(std::FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
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
  return format("epoch %lld of %lld: loss %s, %s%.0f samples/s", wide(e.epoch), wide(e.epochs),
                loss_text(e.loss).c_str(), e.evaluated ? result_text(e.test_loss, e.correct, e.tested).c_str() : "",
                e.samples_per_second);
}

std::string line_of(const RunReport& r) {
  const double seconds = r.time.count();
  return format("done: %lld %s, %s%lld in %.*f s: %.0f samples/s", wide(r.epochs), r.epochs == 1 ? "epoch" : "epochs",
                result_text(r.test_loss, r.correct, r.tested).c_str(), wide(r.samples), seconds < 9.95 ? 1 : 0, seconds,
                static_cast<double>(r.samples) / std::max(seconds, 1e-9));
}

std::string line_of(const std::vector<RankPart>& parts, bool classified) {
  std::string line;
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    line += (rank ? ", rank " : "rank ") + std::to_string(rank) +
            (classified ? ": n_correct " + std::to_string(parts[rank].correct) + " of" : ":") + " n_obs " +
            std::to_string(parts[rank].observed);
  return line;
}

std::string bar_of(const StepReport& s, std::size_t columns) {
  const std::string epoch = format("epoch %lld ", wide(s.epoch)),
                    steps = format("%lld/%lld", wide(s.step), wide(s.steps)),
                    left = ", " + in_minutes(s.seconds_left) + " left";
  // As much as there is room for.
  std::string words = steps;
  for (const std::string& more :
       {" loss " + loss_text(s.loss), left, format(", %.0f samples/s", s.samples_per_second)}) {
    if (epoch.size() + words.size() + more.size() >= columns) break;
    words += more;
  }
  const std::size_t used = epoch.size() + words.size() + 4;  // with brackets, a space, and the last column, which wraps
  if (used + kBarMin > columns) return (epoch + words).substr(0, columns - 1);
  const std::size_t width = std::min(columns - used, kBarMax);
  const std::size_t filled = width * static_cast<std::size_t>(s.step) / static_cast<std::size_t>(s.steps);
  return epoch + "[" + std::string(filled, '=') + std::string(width - filled, ' ') + "] " + words;
}

bool Progress::wants(std::int64_t step, std::int64_t steps, TimePoint now) const {
  if (style_ == Style::silent) return false;
  if (log_every_ > 0) return step % log_every_ == 0;
  return style_ == Style::terminal && (step == steps || now - bar_time_ >= kBarPeriod);
}

void Progress::step(const StepReport& report, TimePoint now) {
  if (!wants(report.step, report.steps, now)) return;
  if (log_every_ > 0) return line(line_of(report));
  std::fprintf(out_, "\r%s\x1b[K", bar_of(report, columns_of(out_)).c_str());
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
