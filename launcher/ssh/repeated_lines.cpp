#include "launcher/ssh/repeated_lines.h"

namespace ddprun::launcher {
namespace {

constexpr std::string_view kOwnPrefix = "ddprun: ";
constexpr std::chrono::seconds kRemembered{10};  // hosts end and regroup within seconds of each other
constexpr std::size_t kSaidMax = 1000;

}  // namespace

std::string RepeatedLines::without_repeated(int host, std::string_view lines, TimePoint now) {
  if (lines.find(kOwnPrefix) == std::string_view::npos) return std::string(lines);
  forget_old(now);
  std::string out;
  while (!lines.empty()) {
    const std::string_view line =
        lines.substr(0, lines.find('\n') == std::string_view::npos ? lines.size() : lines.find('\n') + 1);
    lines.remove_prefix(line.size());
    const auto before = said_.find(line);
    if (line.starts_with(kOwnPrefix) && before != said_.end() && before->second.host != host) continue;
    if (line.starts_with(kOwnPrefix) && said_.size() < kSaidMax)
      said_.insert_or_assign(std::string(line), Said{host, now});
    out += line;
  }
  return out;
}

void RepeatedLines::forget_old(TimePoint now) {
  std::erase_if(said_, [&](const auto& one) { return now - one.second.at > kRemembered; });
}

}  // namespace ddprun::launcher
