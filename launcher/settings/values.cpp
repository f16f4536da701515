#include "launcher/settings/values.h"

#include <algorithm>
#include <cmath>

#include "launcher/settings/nearest_name.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"

namespace ddprun::settings {
namespace {

constexpr double kDayS = 86'400, kDurationMaxS = 366 * kDayS;  // a job of a year; anything longer is a typo
constexpr double kBytesMax = 1e18;                             // far above any disk, far below an overflow

constexpr double kFarAway = 2147483647;  // such limits are only the type's

struct Unit {
  const char* name;
  double factor;
};
constexpr Unit kTimes[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"h", 3'600}, {"d", kDayS}};
constexpr Unit kSizes[] = {{"", 1}, {"K", 0x1p10}, {"k", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}, {"T", 0x1p40}};

// "1.5G" → 1.5 × 2^30. Empty for a negative or infinite number.
std::optional<double> with_unit(std::string_view text, std::span<const Unit> units) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto value = whole_text<double>(text.substr(0, digits));
  if (!value || !std::isfinite(*value)) return {};
  for (const auto& [name, factor] : units)
    if (text.substr(digits) == name) return *value * factor;
  return {};
}

// 1000000 rather than 1e+06
std::string shown(double limit) {
  const bool whole = limit == std::floor(limit) && std::fabs(limit) < 0x1p63;
  return whole ? std::to_string(static_cast<std::int64_t>(limit)) : text_of_number(limit);
}

}  // namespace

std::string invalid_value(const std::string& subject, const std::string& text, const std::string& complaint) {
  if (complaint.starts_with("holds ")) return subject + " " + complaint + ".";
  const std::string known = "'" + text + "'", none_of = "'' is not one of ";
  std::string sentence = subject + (text.empty() ? " is empty" : " is " + known);
  if (text.empty() && complaint.starts_with(none_of))
    sentence += "; it takes " + complaint.substr(none_of.size());
  else if (complaint.starts_with(known + " is "))
    sentence += ", which is " + complaint.substr(known.size() + 4);
  else
    sentence += "; " + complaint;
  return sentence.ends_with('?') ? sentence : sentence + ".";
}

Read<bool> read_flag(const std::string& text) {
  const std::string word = upper_case(text);
  for (const char* yes : {"1", "TRUE", "YES", "T", "Y", "ON"})
    if (word == yes) return true;
  for (const char* no : {"0", "FALSE", "NO", "F", "N", "OFF"})
    if (word == no) return false;
  return Wrong{"it takes 1 or 0, true or false, yes or no"};
}

bool is_true(const std::string& text) {
  const auto read = read_flag(text);
  return std::holds_alternative<Wrong>(read) || std::get<bool>(read);
}

Read<std::size_t> read_choice(const Option& option, const std::string& text) {
  std::vector<std::string> choices = split(option.choices, '|');
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  std::erase(choices, "");
  const std::string near = nearest_name(text, choices);
  return Wrong{"it takes " + listed(choices) + (near.empty() ? "" : "." + did_you_mean(near))};
}

Read<Duration> read_duration(const std::string& text) {
  if (const auto seconds = with_unit(text, kTimes); seconds && *seconds <= kDurationMaxS)
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*seconds));
  return Wrong{"it takes a time such as 25 (seconds), 2.5, 500ms, 90s, 15m, 2h or 1d, at most a year"};
}

Read<std::uint64_t> read_byte_size(const std::string& text) {
  std::string_view size = text;
  if (size.ends_with("iB")) size.remove_suffix(2);
  if (size.ends_with('B')) size.remove_suffix(1);
  if (const auto bytes = with_unit(size, kSizes); bytes && *bytes <= kBytesMax)
    return static_cast<std::uint64_t>(*bytes);
  return Wrong{"it takes a size in bytes such as 500K, 100M or 2G, or 0 for no limit"};
}

Wrong takes_number(const Option& option, bool whole, bool too_large) {
  const bool has_min = option.min > -kNoLimit, has_max = option.max < (too_large ? kNoLimit : kFarAway);
  std::string complaint = whole ? "it takes a whole number" : "it takes a number";
  if (has_min) complaint += (option.above_min ? " above " : " from ") + shown(option.min);
  if (has_max) return {complaint + (has_min ? " to " : " up to ") + shown(option.max)};
  return {complaint + (has_min && !option.above_min ? " up" : "")};
}

std::string text_of_number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : between) + part;
  return out;
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? "" : std::string(text.substr(first, last - first + 1));
}

}  // namespace ddprun::settings
