#include "rendezvous/spelling.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace ddprun {
namespace {

std::string replaced(std::string_view text, char from, char to) {
  std::string out(text);
  std::replace(out.begin(), out.end(), from, to);
  return out;
}

// Farther off it is no typo but another word.
std::size_t typo_letters(std::string_view word) { return std::clamp<std::size_t>(word.size() / 3, 1, 3); }

}  // namespace

std::string with_dashes(std::string_view name) { return replaced(name, '_', '-'); }
std::string with_underscores(std::string_view name) { return replaced(name, '-', '_'); }

std::string upper_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::toupper(c); });
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j)
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
  }
  return row.back();
}

std::string nearest(std::string_view typed, const std::vector<std::string>& words) {
  std::string found;
  std::size_t best = typo_letters(typed) + 1;
  for (const std::string& word : words)
    if (const std::size_t letters = distance(typed, word); letters < best && letters < word.size()) {
      best = letters;
      found = word;
    }
  return found;
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& words) {
  const std::string word = nearest(typed, words);
  return word.empty() ? "" : " Did you mean '" + word + "'?";
}

std::string listed(const std::vector<std::string>& words, const char* last) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? std::string(" ") + last + " " : ", ";
    out += words[i];
  }
  return out;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (const std::string& word : split(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

std::string visible(const std::string& text) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f)
      out += c;
    else
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

}  // namespace ddprun
