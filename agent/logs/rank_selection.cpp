#include "agent/logs/rank_selection.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace ddprun::agent {
namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.starts_with('-');
  return whole ? std::optional(value) : std::nullopt;
}

// "3", "2-5", "g3", "g2-5"
std::optional<RankRange> parse_range(std::string_view text) {
  RankRange range;
  range.global = text.starts_with('g');
  if (range.global) text.remove_prefix(1);
  const std::size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last || *last < *first) return {};
  range.first = *first;
  range.last = *last;
  return range;
}

std::optional<unsigned> parse_streams(std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') return {};
  return static_cast<unsigned>(text[0] - '0');
}

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string no_range(std::string_view text) {
  return quoted(text) + " is neither a local rank (3), a range of them (2-5), nor global ranks (g3, g2-5)";
}

std::string no_streams(std::string_view text) {
  return quoted(text) + " is not one of 0 (none), 1 (stdout), 2 (stderr), 3 (both)";
}

}  // namespace

bool RankSet::holds(int local_rank, int rank) const {
  if (nobody) return false;
  return ranges.empty() || std::any_of(ranges.begin(), ranges.end(),
                                       [&](const RankRange& range) { return range.holds(local_rank, rank); });
}

unsigned StreamSpec::of(int local_rank, int rank) const {
  unsigned streams = everyone;
  for (const Item& item : items)
    if (item.ranks.holds(local_rank, rank)) streams = item.streams;
  return streams;
}

bool StreamSpec::any() const {
  return everyone != kNoStream ||
         std::any_of(items.begin(), items.end(), [](const Item& item) { return item.streams != kNoStream; });
}

std::variant<RankSet, std::string> parse_rank_set(const std::string& text) {
  RankSet set;
  set.nobody = text == "none";
  if (text.empty() || set.nobody) return set;
  for (const std::string_view part : split(text)) {
    const auto range = parse_range(part);
    if (!range) return no_range(part);
    set.ranges.push_back(*range);
  }
  return set;
}

std::variant<StreamSpec, std::string> parse_stream_spec(const std::string& text) {
  StreamSpec spec;
  if (text.find(':') == std::string::npos) {
    const auto streams = parse_streams(text);
    if (!streams) return no_streams(text);
    spec.everyone = *streams;
    return spec;
  }
  for (const std::string_view part : split(text)) {
    const std::size_t colon = part.find(':');
    const auto ranks = parse_range(part.substr(0, colon));
    if (!ranks) return no_range(part.substr(0, colon));
    const std::string_view value = colon == std::string_view::npos ? "" : part.substr(colon + 1);
    const auto streams = parse_streams(value);
    if (!streams) return no_streams(value);
    spec.items.push_back({*ranks, *streams});
  }
  return spec;
}

}  // namespace ddprun::agent
