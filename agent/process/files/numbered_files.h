// Files whose name is a word and a number, as /sys and /dev number CPUs, memory nodes and devices.
#pragma once
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

namespace ddprun::agent {

// "card12" is 12 behind "card"; nothing for "card0-HDMI-1".
inline std::optional<std::uint64_t> number_behind(std::string_view name, std::string_view word) {
  std::uint64_t number = 0;
  if (!name.starts_with(word)) return {};
  const auto [rest, error] = std::from_chars(name.data() + word.size(), name.data() + name.size(), number);
  return error == std::errc() && rest == name.data() + name.size() ? std::optional(number) : std::nullopt;
}

// Those in the folder, by their number; none where it cannot be read.
inline std::map<std::uint64_t, std::filesystem::path> numbered(const std::filesystem::path& folder,
                                                               std::string_view word) {
  std::map<std::uint64_t, std::filesystem::path> out;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (const auto number = number_behind(entry.path().filename().native(), word)) out[*number] = entry.path();
  return out;
}

}  // namespace ddprun::agent
