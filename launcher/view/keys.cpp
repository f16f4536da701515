#include "launcher/view/keys.h"

#include <algorithm>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr char kEscape = '\x1b', kControlC = '\x03', kLastParameter = '?';

// After ESC [ or ESC O, as xterm, the Linux console and tmux send them.
constexpr std::pair<std::string_view, Key> kSequences[] = {
    {"A", Key::up},    {"B", Key::down},  {"5~", Key::page_up}, {"6~", Key::page_down}, {"H", Key::home},
    {"1~", Key::home}, {"7~", Key::home}, {"F", Key::end},      {"4~", Key::end},       {"8~", Key::end}};
constexpr std::pair<char, Key> kLetters[] = {
    {'k', Key::up},    {'j', Key::down},  {'g', Key::home},       {'G', Key::end},     {' ', Key::open},
    {'\r', Key::open}, {'\n', Key::open}, {'s', Key::sort},       {'p', Key::stacks},  {'q', Key::quit},
    {'d', Key::drain}, {'y', Key::yes},   {kControlC, Key::quit}, {'b', Key::page_up}, {'f', Key::page_down}};

Key of_letter(char letter) {
  const auto* known =
      std::find_if(std::begin(kLetters), std::end(kLetters), [&](const auto& one) { return one.first == letter; });
  return known == std::end(kLetters) ? Key::other : known->second;
}

Key of_sequence(std::string_view rest) {
  const auto* known =
      std::find_if(std::begin(kSequences), std::end(kSequences), [&](const auto& one) { return one.first == rest; });
  return known == std::end(kSequences) ? Key::other : known->second;
}

}  // namespace

std::vector<Key> keys_of(std::string_view bytes) {
  std::vector<Key> out;
  while (!bytes.empty()) {
    if (bytes[0] != kEscape) {
      out.push_back(of_letter(bytes[0]));
      bytes.remove_prefix(1);
    } else if (bytes.size() < 3 || (bytes[1] != '[' && bytes[1] != 'O')) {
      out.push_back(Key::escape);
      bytes.remove_prefix(1);
    } else {
      std::size_t end = 2;
      while (end < bytes.size() && bytes[end] <= kLastParameter) ++end;
      end = std::min(end + 1, bytes.size());
      out.push_back(of_sequence(bytes.substr(2, end - 2)));
      bytes.remove_prefix(end);
    }
  }
  return out;
}

}  // namespace ddprun::launcher
