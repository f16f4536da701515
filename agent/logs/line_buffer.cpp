#include "agent/logs/line_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// Finds the next such byte, searching again only once it is passed: two kinds of line ends cost one scan each.
class NextByte {
 public:
  NextByte(std::string_view bytes, char wanted) : bytes_(bytes), wanted_(wanted), at_(find(0)) {}
  std::size_t from(std::size_t start) {
    if (at_ != kNone && at_ < start) at_ = find(start);
    return at_;
  }

 private:
  std::size_t find(std::size_t start) const { return bytes_.find(wanted_, start); }

  std::string_view bytes_;
  char wanted_;
  std::size_t at_;
};

// Just past the line that starts at `start`; empty if its end has not arrived, or may continue ("\r" as the last byte).
std::size_t end_of_line(std::string_view bytes, std::size_t start, NextByte& newline, NextByte& carriage_return) {
  const std::size_t n = newline.from(start), r = carriage_return.from(start);
  if (n < r) return n + 1;
  if (r == kNone || r + 1 == bytes.size()) return kNone;
  return bytes[r + 1] == '\n' ? r + 2 : r + 1;
}

// The part that Tail may need: from the start of the last `lines` non-empty lines.
std::string_view last_lines(std::string_view bytes, std::size_t lines) {
  std::size_t found = 0, end = bytes.size();
  while (end > 0) {
    const std::size_t before = bytes.find_last_of("\n\r", end - 1);
    const std::size_t start = before == kNone ? 0 : before + 1;
    if (start < end && ++found > lines) return bytes.substr(start);
    if (before == kNone) break;
    end = before;
  }
  return bytes;
}

}  // namespace

void LineBuffer::take(std::string_view bytes, std::string_view prefix, std::string& out) {
  resolve_return(bytes, prefix, out);
  NextByte newline(bytes, '\n'), carriage_return(bytes, '\r');
  std::size_t start = 0;
  for (std::size_t end; (end = end_of_line(bytes, start, newline, carriage_return)) != kNone; start = end)
    emit(bytes.substr(start, end - start), prefix, out);
  hold(bytes.substr(start), prefix, out);
}

// A "\r" that was held back as the last byte ends its line, alone or with a "\n" that comes now.
void LineBuffer::resolve_return(std::string_view& bytes, std::string_view prefix, std::string& out) {
  if (bytes.empty() || !held_.ends_with('\r')) return;
  const std::size_t more = bytes[0] == '\n' ? 1 : 0;
  emit(bytes.substr(0, more), prefix, out);
  bytes.remove_prefix(more);
}

void LineBuffer::emit(std::string_view line, std::string_view prefix, std::string& out) {
  const std::size_t shown = std::exchange(shown_, 0);
  if (!held_.empty()) line = held_ += line;
  after_return_ = line.ends_with('\r');
  const bool seen = shown > 0 && after_return_ && shown + 1 >= line.size();
  if (!seen && wanted(line)) out.append(prefix).append(line);
  held_.clear();
}

void LineBuffer::hold(std::string_view start, std::string_view prefix, std::string& out) {
  held_ += start;
  if (held_.size() < kBytesMax) return;
  const std::size_t before = out.size();
  emit("", prefix, out);
  if (!prefix.empty() && out.size() > before) out += '\n';  // the next piece begins with a prefix
}

void LineBuffer::take_rest(std::string_view prefix, std::string& out, bool end_line) {
  if (held_.empty()) return;
  emit(end_line && !held_.ends_with('\r') ? "\n" : "", prefix, out);
}

void LineBuffer::show_redraw(std::string_view prefix, std::string& out) {
  shown_ = held_.size();
  out.append(prefix).append(held_);
  if (!held_.ends_with('\r')) out += '\r';
}

bool LineBuffer::wanted(std::string_view line) const {
  return needles_.empty() || std::any_of(needles_.begin(), needles_.end(),
                                         [&](const std::string& needle) { return line.find(needle) != kNone; });
}

// What is older goes when as much again has come: not with each line.
void LastBytes::add(std::string_view bytes, TimePoint now) {
  at_ = now;
  if (bytes.size() >= kBytes) return void(bytes_ = bytes.substr(bytes.size() - kBytes));
  bytes_ += bytes;
  if (bytes_.size() > 2 * kBytes) bytes_.erase(0, bytes_.size() - kBytes);
}

void Tail::add(std::string_view bytes) {
  const std::string_view last = last_lines(bytes, kLines);
  if (last.size() < bytes.size()) {
    lines_.clear();
    current_.clear();
  }
  for (bytes = last; !bytes.empty();) {
    const std::size_t end = bytes.find_first_of("\n\r");
    current_ += bytes.substr(0, std::min(end, kLineMax - std::min(kLineMax, current_.size())));
    if (end == kNone) return;
    end_line();
    bytes.remove_prefix(end + 1);
  }
}

void Tail::end_line() {
  if (current_.empty()) return;
  lines_.push_back(std::exchange(current_, {}));
  if (lines_.size() > kLines) lines_.pop_front();
}

std::vector<std::string> Tail::lines() const {
  std::vector<std::string> out(lines_.begin(), lines_.end());
  if (!current_.empty()) out.push_back(current_);
  if (out.size() > kLines) out.erase(out.begin());
  return out;
}

}  // namespace ddprun::agent
