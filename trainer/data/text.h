// Encodes a text as numbers, character by character, for a model that predicts the next one.
//
// A character is a Unicode code point, so Python's sorted(set(text)) is the same vocabulary. The file is UTF-8, read
// unchanged: newlines are not translated and a byte order mark is a character.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::train {

// The sorted distinct characters of a text; an id is an index into it, from 0 on.
class Vocabulary {
 public:
  Vocabulary() = default;
  explicit Vocabulary(const std::u32string& text);

  std::int64_t size() const { return static_cast<std::int64_t>(characters_.size()); }
  const std::u32string& characters() const { return characters_; }

  // Throws Error if the text has a character that is not in the vocabulary.
  std::vector<std::int32_t> ids_of(const std::u32string& text) const;
  // As UTF-8. Throws Error if an id is not in the vocabulary.
  std::string text_of(std::span<const std::int64_t> ids) const;

 private:
  std::u32string characters_;
};

struct Text {
  Vocabulary vocabulary = {};
  std::vector<std::int32_t> train = {}, test = {};  // ids; the test part is the last tenth of the text
};

// Sample i has `context` ids from i * stride on; its target is the same shifted by one.
struct Windows {
  std::int64_t context = 64;
  std::int64_t stride = 64;
  // Number of complete samples in `ids` ids.
  std::int64_t count(std::int64_t ids) const;
};

// Throws Error, with the byte's offset, if it is not UTF-8 (as strict as Python). `name` is for the message.
std::u32string decode_utf8(std::string_view bytes, const std::string& name);

// Throws Error, naming the file, if it is unreadable, not UTF-8, or either of its parts is too short for one sample.
Text read_text(const std::string& path, const Windows& windows);

}  // namespace ddprun::train
