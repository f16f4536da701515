#include "rendezvous/base/spelling.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

namespace ddprun {
namespace {

std::string replaced(std::string_view text, char from, char to) {
  std::string out(text);
  std::replace(out.begin(), out.end(), from, to);
  return out;
}

// With more differences it is another word, not a typo.
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

std::vector<std::string_view> words_in(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  std::vector<std::string_view> words;
  words.reserve(text.size() / 4);  // a line of /proc at once
  for (auto end = text.begin();;) {
    const auto begin = std::find_if_not(end, text.end(), is_blank);
    if (begin == text.end()) return words;
    end = std::find_if(begin, text.end(), is_blank);
    words.emplace_back(begin, end);
  }
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1), above, second;  // of the first i, i - 1 and i - 2 letters of a
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    second = std::exchange(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], second[j - 2] + 1);
    }
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

std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) { return (c < 0x80 && std::isalnum(c)) || std::strchr("_./=:@%,+-", c); };
  if (!text.empty() && text.find('\0') == std::string::npos && std::all_of(text.begin(), text.end(), plain))
    return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
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

namespace {

// Size of the UTF-8 character at the beginning of `text`; 0: not UTF-8.
std::size_t utf8_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;  // a continuation byte, an overlong ASCII character, or invalid
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const unsigned lead = first << 8 | byte(1);
  const bool too_long = (size == 3 && lead < 0xe0a0) || (size == 4 && lead < 0xf090);
  const bool no_character = (lead >= 0xeda0 && lead <= 0xedbf) || lead >= 0xf490;  // a surrogate, or beyond Unicode
  return too_long || no_character ? 0 : size;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

void append_visible(std::string& out, std::string_view bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
}

std::string escape_except(std::string_view text, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = utf8_size(text);
    const std::string_view character = text.substr(0, size ? size : 1);
    const bool needs_escape = !size || is_control(character);
    if (needs_escape && kept.find(character) == kept.npos)
      append_visible(out, character);
    else
      out += character;
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

std::string visible(const std::string& text) { return escape_except(text, ""); }
std::string visible_lines(const std::string& text) { return escape_except(text, "\n\t"); }

}  // namespace ddprun
