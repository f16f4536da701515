// A line as a terminal shows it. Pure.
#pragma once
#include <cstddef>
#include <limits>
#include <string>

namespace ddprun::launcher {

constexpr std::size_t kAnyWidth = std::numeric_limits<std::size_t>::max();  // there is no terminal

// What comes from other machines cannot act on it (visible()). What is longer than so many characters ends with ">".
std::string terminal_line(const std::string& shown, std::size_t columns);

}  // namespace ddprun::launcher
