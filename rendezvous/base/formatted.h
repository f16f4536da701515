#pragma once
#include <array>
#include <cstdio>
#include <string>

namespace ddprun {

// printf's, at most 160 characters.
template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 161> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

}  // namespace ddprun
