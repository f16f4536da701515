// A text as numbers, character by character, for a model that guesses the next one.
//
// A character is a Unicode code point, so Python's sorted(set(text)) is the same vocabulary. The file is UTF-8, taken
// as it is: no newline is translated and a byte order mark is a character.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::train {

// The different characters of a text in their order; an id is a place in it, from 0 on.
class Vocabulary {
 public:
  Vocabulary() = default;
  explicit Vocabulary(const std::u32string& text);

  std::int64_t size() const { return static_cast<std::int64_t>(characters_.size()); }
  const std::u32string& characters() const { return characters_; }

  // Error where the text has a character that is not in the vocabulary.
  std::vector<std::int32_t> ids_of(const std::u32string& text) const;
  // As UTF-8. Error where an id is none of the vocabulary's.
  std::string text_of(std::span<const std::int64_t> ids) const;

 private:
  std::u32string characters_;
};

struct Text {
  Vocabulary vocabulary = {};
  std::vector<std::int32_t> train = {}, test = {};  // ids; the test part is the last tenth of the text
};

// Sample i has the ids from i * stride on, `context` of them; its target is the same, one further.
struct Windows {
  std::int64_t context = 64;
  std::int64_t stride = 64;
  // Samples that `ids` ids hold whole.
  std::int64_t count(std::int64_t ids) const;
};

// Error, with the offset of the byte, where it is no UTF-8 (as Python is strict about it). `name` is for the message.
std::u32string decode_utf8(std::string_view bytes, const std::string& name);

// Error, naming the file, where it cannot be read, is no UTF-8, or either of its parts is too short for one sample.
Text read_text(const std::string& path, const Windows& windows);

}  // namespace ddprun::train
