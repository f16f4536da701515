// Parses the text of a value: returns the value, or what is wrong as the rest of a sentence.
//
// That rest starts with "it takes ..." or with the wrong part in quotes; invalid_value() makes the sentence. Or with
// "holds ...": then the sentence does not show the text, which has a secret. Pure.
#pragma once
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/settings/option.h"
#include "rendezvous/base/time.h"

namespace ddprun::settings {

struct Wrong {
  std::string complaint;
};
template <class Value>
using Read = std::variant<Value, Wrong>;

// "--max-restarts is 'many'; it takes a whole number from 0 up."
std::string invalid_value(const std::string& subject, const std::string& text, const std::string& complaint);

Read<bool> read_flag(const std::string& text);
bool is_true(const std::string& text);
// The index of the text in the option's choices.
Read<std::size_t> read_choice(const Option& option, const std::string& text);
Read<Duration> read_duration(const std::string& text);        // "25", "2.5", "90s", "15m", "2h", "1d"
Read<std::uint64_t> read_byte_size(const std::string& text);  // "0", "100M", "1.5G"

// The whole text as one number, of any size.
template <class Number>
std::optional<Number> whole_text(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// "it takes a whole number from 0 up"; an upper limit beyond usual values is named only if the value exceeds it.
Wrong takes_number(const Option& option, bool whole, bool too_large);

// A number within the option's limits.
template <class Number>
Read<Number> read_number(const Option& option, const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto as_double = static_cast<double>(value);
  const bool too_large = error == std::errc::result_out_of_range || as_double > option.max;
  const bool inside = option.above_min ? as_double > option.min : as_double >= option.min;  // false for NaN
  if (error == std::errc() && end == text.data() + text.size() && inside && !too_large) return value;
  return takes_number(option, std::is_integral_v<Number>, too_large);
}

std::string text_of_number(double value);  // the shortest text that reads back
std::string joined(const std::vector<std::string>& parts, const char* between);
std::string trimmed(std::string_view text);

}  // namespace ddprun::settings
