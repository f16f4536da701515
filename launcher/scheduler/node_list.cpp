#include "launcher/scheduler/node_list.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using Names = std::vector<std::string>;

constexpr std::size_t kDigitsMax = 18;  // of a number that fits 64 bits
constexpr std::size_t kNameMax = 255;   // as in DNS; so a short list cannot become gigabytes of names

// A list's item is text and brackets in turn: text[0] numbers[0] text[1] ... text[n].
struct Item {
  std::vector<std::string> text{""};
  std::vector<Names> numbers = {};
};

std::optional<std::uint64_t> number(const std::string& digits) {
  if (digits.size() > kDigitsMax) return {};
  return settings::whole_text<std::uint64_t>(digits);
}

std::string padded(std::uint64_t number, std::size_t width) {
  const std::string digits = std::to_string(number);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

std::string too_many() { return "it takes at most " + std::to_string(kListedNodesMax) + " nodes"; }

// Adds the numbers of "01-03" or "7", or returns what is wrong.
std::string add_range(const std::string& range, Names& numbers) {
  const std::size_t dash = range.find('-');
  const std::string first = range.substr(0, dash);
  const auto low = number(first), high = dash == std::string::npos ? low : number(range.substr(dash + 1));
  if (!low || !high || *low > *high) return "it takes ranges such as [01-16,20], and '" + range + "' is not a range";
  if (*high - *low >= kListedNodesMax - std::min(kListedNodesMax, numbers.size())) return too_many();
  for (std::uint64_t one = *low; one <= *high; ++one) numbers.push_back(padded(one, first.size()));
  return {};
}

settings::Read<Item> parse_item(const std::string& text) {
  Item item;
  std::size_t combinations = 1;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ']') return settings::Wrong{"a ']' has no '['"};
    if (text[at] != '[') {
      item.text.back() += text[at];
      continue;
    }
    const std::size_t end = text.find(']', at);
    if (end == std::string::npos) return settings::Wrong{"a '[' has no ']'"};
    item.numbers.emplace_back();
    for (const std::string& range : split(std::string_view(text).substr(at + 1, end - at - 1), ','))
      if (std::string wrong = add_range(range, item.numbers.back()); !wrong.empty())
        return settings::Wrong{std::move(wrong)};
    combinations *= item.numbers.back().size();  // each factor is at most kListedNodesMax, so there is no overflow
    if (combinations > kListedNodesMax) return settings::Wrong{too_many()};
    item.text.emplace_back();
    at = end;
  }
  return item;
}

// Which bracket changes fastest, which next: in Slurm the last one, then from the first one on.
std::vector<std::size_t> bracket_order(std::size_t brackets) {
  std::vector<std::size_t> order(brackets);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (brackets > 0) std::rotate(order.begin(), order.end() - 1, order.end());
  return order;
}

// The next combination; false after the last one.
bool advance(const Item& item, std::vector<std::size_t>& chosen) {
  for (const std::size_t bracket : bracket_order(chosen.size())) {
    if (++chosen[bracket] < item.numbers[bracket].size()) return true;
    chosen[bracket] = 0;
  }
  return false;
}

std::string name_of(const Item& item, const std::vector<std::size_t>& chosen) {
  std::string name = item.text.front();
  for (std::size_t i = 0; i < chosen.size(); ++i) name += item.numbers[i][chosen[i]] + item.text[i + 1];
  return name;
}

// Returns what is wrong.
std::string add_names(const Item& item, Names& names) {
  std::vector<std::size_t> chosen(item.numbers.size(), 0);
  do {
    if (names.size() == kListedNodesMax) return too_many();
    names.push_back(name_of(item, chosen));
    if (names.back().size() > kNameMax) return "a node's name has at most " + std::to_string(kNameMax) + " characters";
  } while (advance(item, chosen));
  return {};
}

// At the commas outside brackets.
Names items_of(const std::string& text) {
  Names items{""};
  bool inside = false;
  for (const char c : text) {
    inside = c == '[' || (inside && c != ']');
    if (c == ',' && !inside)
      items.emplace_back();
    else
      items.back() += c;
  }
  std::erase(items, "");
  return items;
}

}  // namespace

settings::Read<Names> expand_node_list(const std::string& text) {
  Names names;
  for (const std::string& one : items_of(text)) {
    auto item = parse_item(one);
    if (auto* wrong = std::get_if<settings::Wrong>(&item)) return std::move(*wrong);
    if (std::string wrong = add_names(std::get<Item>(item), names); !wrong.empty())
      return settings::Wrong{std::move(wrong)};
  }
  if (names.empty()) return settings::Wrong{"it takes the names of nodes"};
  return names;
}

}  // namespace ddprun::launcher
