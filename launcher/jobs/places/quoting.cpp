#include "launcher/jobs/places/quoting.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "rendezvous/base/json_text.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kDigits = "0123456789";

bool is_ascii_letter(char c) { return kLetters.find(c) != kLetters.npos; }

bool consists_of(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_ascii_letter(c) || kDigits.find(c) != kDigits.npos || others.find(c) != others.npos;
  });
}

// As YAML 1.1 has them, which kubectl's parser still knows.
bool is_yaml_keyword(const std::string& text) {
  static constexpr std::array kKeywords{"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"};
  const std::string upper = upper_case(text);
  return std::any_of(kKeywords.begin(), kKeywords.end(), [&](const char* one) { return upper_case(one) == upper; });
}

// Whether a YAML parser returns these lines byte for byte from a literal block.
bool fits_a_block(const std::string& text) {
  const bool only_ascii = std::all_of(
      text.begin(), text.end(), [](unsigned char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t'; });
  return only_ascii && text.find_first_not_of('\n') != text.npos && text.ends_with('\n') && !text.ends_with("\n\n");
}

}  // namespace

std::string sbatch_word(const std::string& text) {
  if (!text.empty() && consists_of(text, "_./=:@%,+-[]()*&|!")) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// JSON's strings are YAML's.
std::string yaml_string(const std::string& text) {
  const std::size_t first = text.starts_with("--") ? 2 : 0;
  const bool begins_plainly = first < text.size() && (is_ascii_letter(text[first]) || text[0] == '/');
  const bool plain = begins_plainly && consists_of(text, "_./-") && !is_yaml_keyword(text);
  return plain ? text : json_text(nlohmann::json(text), {.ascii = true});
}

std::string yaml_lines(const std::string& text, std::size_t indent) {
  if (!fits_a_block(text)) return yaml_string(text);
  std::string out = "|2";
  for (const std::string& line : split(text.substr(0, text.size() - 1), '\n'))
    out += line.empty() ? "\n" : "\n" + std::string(indent + 2, ' ') + line;
  return out;
}

std::string without_expansion(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '$' ? "$$" : std::string(1, c);
  return out;
}

}  // namespace ddprun::launcher
