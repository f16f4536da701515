#include "agent/line_buffer.h"

#include <algorithm>
#include <utility>

namespace ddprun {

std::string LineBuffer::take(std::string_view bytes) {
  held_ += bytes;
  const std::size_t end = held_.find_last_of("\n\r");
  if (end == std::string::npos) return held_.size() < kBytesMax ? std::string() : take_rest();
  std::string out = held_.substr(0, end + 1);
  held_.erase(0, end + 1);
  return out;
}

void Tail::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\n\r");
    current_ += bytes.substr(0, std::min(end, kLineMax - std::min(kLineMax, current_.size())));
    if (end == std::string_view::npos) return;
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

}  // namespace ddprun
