// Numbers with their units, for people. Pure.
#pragma once
#include <array>
#include <cstdio>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace ddprun::launcher {

// printf's, at most 160 characters.
template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 161> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string duration_text(double seconds);        // "12 min 5 s"
std::string short_duration_text(double seconds);  // "12m05s", at most 7 characters
std::string bytes_text(double bytes);             // "2.1 GiB"; "-" for none
// Of a rank as status_json.h has it: "312%"; "-" where it is not known.
std::string processors_text(const nlohmann::json& rank);

}  // namespace ddprun::launcher
