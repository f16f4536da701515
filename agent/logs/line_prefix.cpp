#include "agent/logs/line_prefix.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string_view>

namespace ddprun::agent {
namespace {

// No red, which reads as an error, and no white or black, one of which is invisible.
constexpr std::array<const char*, 10> kColours{"36", "32", "33", "35", "34", "96", "92", "93", "95", "94"};

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string_view leading_name(std::string_view text) {
  std::size_t size = 0;
  if (!text.empty() && starts_name(text[0]))
    while (size < text.size() && continues_name(text[size])) ++size;
  return text.substr(0, size);
}

// The name in "$..." at the start of `text`, and how many bytes the reference has.
struct Reference {
  std::string_view name;
  std::size_t size = 0;
};

Reference reference_at(std::string_view text) {
  if (text.starts_with("$$")) return {"$", 2};
  const bool braced = text.starts_with("${");
  const std::string_view name = leading_name(text.substr(braced ? 2 : 1));
  if (name.empty() || (braced && text.substr(2 + name.size(), 1) != "}")) return {};
  return {name, name.size() + (braced ? 3 : 1)};
}

std::optional<std::string> value_of(std::string_view name, const PrefixNames& names) {
  if (name == "$") return "$";
  if (name == "rank") return std::to_string(names.rank);
  if (name == "local_rank") return std::to_string(names.local_rank);
  if (name == "host" || name == "hostname") return names.host;
  if (name == "role" || name == "role_name") return names.role;
  return {};
}

std::string local_time(std::chrono::system_clock::time_point now) {
  const auto since_epoch = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  const std::time_t seconds = since_epoch / 1000;
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[40];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + size, sizeof text - size, ".%03d", static_cast<int>(since_epoch % 1000));
  return text;
}

}  // namespace

LinePrefix::LinePrefix(const std::string& pattern, const PrefixNames& names) {
  for (std::string_view rest = pattern; !rest.empty();) {
    const Reference reference = rest[0] == '$' ? reference_at(rest) : Reference{};
    const std::size_t size = std::max<std::size_t>(reference.size, 1);
    if (reference.name == "time")
      parts_.emplace_back();
    else
      parts_.back() += value_of(reference.name, names).value_or(std::string(rest.substr(0, size)));
    rest.remove_prefix(size);
  }
}

LinePrefix LinePrefix::coloured(int rank) const {
  LinePrefix out = *this;
  if (empty()) return out;
  out.parts_.front().insert(0, std::string("\x1b[") + kColours[static_cast<std::size_t>(rank) % kColours.size()] + "m");
  out.parts_.back() += "\x1b[0m";
  return out;
}

const std::string& LinePrefix::text(std::chrono::system_clock::time_point now) {
  if (parts_.size() == 1) return parts_.front();
  const std::string time = local_time(now);
  filled_ = parts_.front();
  for (std::size_t i = 1; i < parts_.size(); ++i) filled_ += time + parts_[i];
  return filled_;
}

}  // namespace ddprun::agent
