// toml++, and the messages about it that launcher and trainer share.
#pragma once

// toml++ 3.3 asserts that a key begins with a valid character before it checks it ("[?"); with NDEBUG it even lets the
// compiler assume that. With both disabled it finds and reports the mistake.
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// Throws toml::parse_error. Like toml::parse(), but also for keys of more than kKeyPartsMax parts, "a.b.c": toml++
// creates and frees a table for each by recursion, and 200,000 of them overflow the stack.
toml::table parse_toml(const std::string& text, const std::string& name);
constexpr std::size_t kKeyPartsMax = 8;
// The line, counted from 1, of the first such key.
std::optional<std::uint32_t> line_with_deep_key(std::string_view text);

// "'lr = ' is not valid TOML: key has no value", without a full stop; `text` is the whole file's. A line that may
// have a password is not shown.
std::string toml_error_message(const toml::parse_error& error, const std::string& text);

// "a table", "5" or "the string 'five'", for a value of the wrong type.
std::string describe_value(const toml::node& node);

// A string and a number in TOML's syntax.
std::string toml_string(const std::string& text);
std::string toml_number(double value);

}  // namespace ddprun
