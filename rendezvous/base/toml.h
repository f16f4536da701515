// toml++, and what launcher and trainer both say of it.
#pragma once

// toml++ 3.3 asserts that a key begins with a key's letter before it checks it ("[?"): with NDEBUG it would even
// promise that to the compiler. Without either it finds the mistake and says so.
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// Throws toml::parse_error. As toml::parse() does, but for keys of more than kKeyPartsMax parts, "a.b.c": toml++ makes
// and frees a table for each by recursion, and 200,000 of them overflow the stack.
toml::table parse_toml(const std::string& text, const std::string& name);
constexpr std::size_t kKeyPartsMax = 8;
// The line, from 1, of the first such key.
std::optional<std::uint32_t> line_with_deep_key(std::string_view text);

// "'lr = ' is no TOML: key has no value", without a full stop; `text` is the whole file's.
std::string not_toml(const toml::parse_error& error, const std::string& text);

// "a table", "5" or "the text 'five'": of something else than what was asked for.
std::string what_it_is(const toml::node& node);

// A text and a number as TOML writes them.
std::string toml_string(const std::string& text);
std::string toml_number(double value);

}  // namespace ddprun
