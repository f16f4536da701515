#include "trainer/data/text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "rendezvous/base/error.h"
#include "trainer/data/data_file.h"

namespace ddprun::train {
namespace {

// Limit for the file. In memory a character takes four bytes and its id another four.
constexpr std::size_t kFileBytesMax = std::size_t{1} << 30;
constexpr char32_t kCharacterMax = 0x10ffff;

// A character's length in bytes, by its first byte, and the range of its second; length 0: invalid first byte. Source:
// the Unicode standard, table 3-7 (well-formed UTF-8 byte sequences).
struct Form {
  int length;
  std::uint8_t second_min = 0x80, second_max = 0xbf;
};

Form form_of(std::uint8_t first) {
  if (first < 0x80) return {1};
  if (first < 0xc2) return {0};
  if (first < 0xe0) return {2};
  if (first == 0xe0) return {3, 0xa0};        // below: two bytes would suffice
  if (first == 0xed) return {3, 0x80, 0x9f};  // above: UTF-16 surrogates
  if (first < 0xf0) return {3};
  if (first == 0xf0) return {4, 0x90};
  if (first < 0xf4) return {4};
  if (first == 0xf4) return {4, 0x80, 0x8f};  // above: not a character
  return {0};
}

bool is_whole(std::string_view bytes, const Form& form) {
  if (form.length == 0 || bytes.size() < static_cast<std::size_t>(form.length)) return false;
  for (int i = 1; i < form.length; ++i) {
    const auto byte = static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(i)]);
    if (byte < (i == 1 ? form.second_min : 0x80) || byte > (i == 1 ? form.second_max : 0xbf)) return false;
  }
  return true;
}

char32_t character_of(std::string_view bytes) {
  constexpr std::array<std::uint8_t, 5> kFirstMask{0, 0x7f, 0x1f, 0x0f, 0x07};
  char32_t result = static_cast<std::uint8_t>(bytes[0]) & kFirstMask[bytes.size()];
  for (const char byte : bytes.substr(1)) result = result << 6 | (static_cast<std::uint8_t>(byte) & 0x3f);
  return result;
}

void append_utf8(std::string& text, char32_t character) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (character >> shift & 0x3f)); };
  if (character < 0x80)
    text += static_cast<char>(character);
  else if (character < 0x800)
    text += {static_cast<char>(0xc0 | character >> 6), tail(0)};
  else if (character < 0x10000)
    text += {static_cast<char>(0xe0 | character >> 12), tail(6), tail(0)};
  else
    text += {static_cast<char>(0xf0 | character >> 18), tail(12), tail(6), tail(0)};
}

std::string quoted(char32_t character) {
  std::string text;
  append_utf8(text, character);
  return "'" + text + "'";
}

void check_windows(const Windows& windows) {
  for (const auto& [name, value] : {std::pair{"context", windows.context}, std::pair{"stride", windows.stride}})
    if (value < 1)
      throw Error("cannot cut the text into samples",
                  std::string("the ") + name + " is " + std::to_string(value) + " and has to be at least 1");
}

void check_part(const std::vector<std::int32_t>& ids, const Windows& windows, const std::string& purpose,
                const std::string& path) {
  const auto size = static_cast<std::int64_t>(ids.size());
  if (windows.count(size) > 0) return;
  throw Error("cannot use the text " + path,
              "it has " + std::to_string(size) + " characters to " + purpose + ", and one sample takes " +
                  std::to_string(windows.context) + " and the one after them",
              "Give it a longer text with --data, or shorten the context.");
}

}  // namespace

Vocabulary::Vocabulary(const std::u32string& text) {
  std::vector<bool> seen(kCharacterMax + 1);
  for (const char32_t character : text) seen.at(character) = true;
  for (char32_t character = 0; character <= kCharacterMax; ++character)
    if (seen[character]) characters_ += character;
}

std::vector<std::int32_t> Vocabulary::ids_of(const std::u32string& text) const {
  std::vector<std::int32_t> table(characters_.empty() ? 0 : characters_.back() + 1, -1);
  for (std::size_t id = 0; id < characters_.size(); ++id) table[characters_[id]] = static_cast<std::int32_t>(id);
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  for (const char32_t character : text) {
    if (character >= table.size() || table[character] < 0)
      throw Error("cannot turn the text into numbers",
                  "its character " + std::to_string(ids.size()) + ", " + quoted(character) + ", is not among the " +
                      std::to_string(characters_.size()) + " that the model knows");
    ids.push_back(table[character]);
  }
  return ids;
}

std::string Vocabulary::text_of(std::span<const std::int64_t> ids) const {
  std::string text;
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= size())
      throw Error("cannot turn numbers into text", std::to_string(id) + " is not one of the " + std::to_string(size()) +
                                                       " characters, which are numbered from 0");
    append_utf8(text, characters_[static_cast<std::size_t>(id)]);
  }
  return text;
}

std::int64_t Windows::count(std::int64_t ids) const {
  return ids <= context ? 0 : (ids - context - 1) / stride + 1;  // one more for the last one's target
}

std::u32string decode_utf8(std::string_view bytes, const std::string& name) {
  std::u32string text;
  text.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const Form form = form_of(static_cast<std::uint8_t>(bytes[at]));
    if (!is_whole(bytes.substr(at), form))
      throw Error("cannot read the text " + name,
                  "the bytes from offset " + std::to_string(at) + " on are not a character in UTF-8",
                  "Save it as UTF-8, or name another file with --data.");
    text += character_of(bytes.substr(at, static_cast<std::size_t>(form.length)));
    at += static_cast<std::size_t>(form.length);
  }
  return text;
}

Text read_text(const std::string& path, const Windows& windows) {
  check_windows(windows);
  const auto bytes = read_data_file(path, kFileBytesMax);
  const std::u32string characters = decode_utf8({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  Text text{.vocabulary = Vocabulary(characters)};
  text.train = text.vocabulary.ids_of(characters);
  const auto cut = text.train.begin() + static_cast<std::ptrdiff_t>(text.train.size() * 9 / 10);
  text.test.assign(cut, text.train.end());
  text.train.erase(cut, text.train.end());
  check_part(text.train, windows, "train on", path);
  check_part(text.test, windows, "test on", path);
  return text;
}

}  // namespace ddprun::train
