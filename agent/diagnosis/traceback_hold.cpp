#include "agent/diagnosis/traceback_hold.h"

#include <array>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::string_view kFatal = "Fatal Python error: ";
// First lines of a Python traceback, of a syntax error, which begins with the place, of argparse's usage error, and of
// what Python writes as it dies of a signal (faulthandler) or of itself.
constexpr std::array<std::string_view, 4> kStarts = {"Traceback (most recent call last):", "  File \"",
                                                     "usage: ", kFatal};
constexpr std::string_view kMark = "[rank";

enum class Line { other, may_become, begins };

// The length of "[rank3]: "; npos if the line ends within it.
std::size_t rank_mark(std::string_view line) {
  if (!line.starts_with(kMark)) return kMark.starts_with(line) ? line.npos : 0;
  const std::size_t end = line.find_first_not_of("0123456789", kMark.size());
  if (end == line.npos) return line.npos;
  if (end == kMark.size()) return 0;  // without a number it is none
  const std::string_view rest = line.substr(end, 3);
  if (rest == "]: ") return end + 3;
  return std::string_view("]: ").starts_with(rest) ? line.npos : 0;
}

Line kind_of(std::string_view line) {
  const std::size_t mark = rank_mark(line);
  if (mark == line.npos) return line.empty() ? Line::other : Line::may_become;
  line.remove_prefix(mark);
  for (const std::string_view start : kStarts) {
    if (line.starts_with(start)) return Line::begins;
    if (start.starts_with(line)) return Line::may_become;
  }
  return Line::other;
}

}  // namespace

std::string TracebackHold::take(std::string_view bytes) {
  held_ += bytes;
  if (started_) return held_.size() > kBytesMax ? release() : "";
  for (std::size_t start = 0; start < held_.size();) {
    const std::size_t end = held_.find('\n', start);
    const std::string_view line = std::string_view(held_).substr(start, end - start);
    const Line kind = line_start_ ? kind_of(line) : Line::other;
    started_ = kind == Line::begins;
    if (started_ || (kind == Line::may_become && end == held_.npos)) {
      std::string rest = held_.substr(start);
      held_.resize(start);
      return std::exchange(held_, std::move(rest));
    }
    line_start_ = end != held_.npos;
    if (!line_start_) break;
    start = end + 1;
  }
  return std::exchange(held_, {});
}

std::string TracebackHold::release() {
  started_ = false;
  if (!held_.empty()) line_start_ = held_.back() == '\n';
  return std::exchange(held_, {});
}

bool begins_traceback(std::string_view line) { return kind_of(line) == Line::begins; }

bool begins_fatal_error(std::string_view line) { return line.starts_with(kFatal); }

std::string_view without_rank(std::string_view line) {
  const std::size_t mark = rank_mark(line);
  return mark == line.npos ? line : line.substr(mark);
}

}  // namespace ddprun::agent
