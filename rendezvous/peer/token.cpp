#include "rendezvous/peer/token.h"

#include <string.h>  // explicit_bzero
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "rendezvous/base/error.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kHexMin = 32, kBase64Min = 22;  // 128 bits each
constexpr std::size_t kLengthMax = 1024;              // longer: the wrong file was named
// Of 32 random hex digits, fewer than 8 are distinct once in 30 million tokens; of "0000..." and "deadbeef..." always.
constexpr std::size_t kDistinctMin = 8;
constexpr std::size_t kGeneratedBytes = 32;
constexpr const char* kTokenFormat = "it takes at least 32 hex digits or 22 characters of base64";

constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kBlank = " \t\r\n\v\f";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_base64(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '/' || c == '-' ||
         c == '_';
}

std::string_view stripped(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string_view without_padding(std::string_view text) {
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  return text;
}

// Names a wrong character only by its position: a token with one letter changed is nearly the token.
std::optional<std::string> complaint(std::string_view token) {
  const std::string_view letters = without_padding(token);
  const auto wrong = std::find_if_not(letters.begin(), letters.end(), is_base64);
  if (wrong != letters.end())
    return std::string(kTokenFormat) + ", and character " + std::to_string(wrong - letters.begin() + 1) +
           " of it is neither";
  const bool hex = std::all_of(letters.begin(), letters.end(), is_hex);
  if (letters.size() < (hex ? kHexMin : kBase64Min))
    return std::string(kTokenFormat) + ", and it has " + std::to_string(letters.size()) + (hex ? " hex digits" : "");
  if (token.size() > kLengthMax) return "it takes at most " + std::to_string(kLengthMax) + " characters";
  if (std::set<char>(letters.begin(), letters.end()).size() < kDistinctMin)
    return "it takes a random one, but nearly all its characters are the same";
  return {};
}

}  // namespace

std::variant<Token, InvalidToken> Token::parse(std::string_view text) {
  const std::string_view token = stripped(text);
  if (auto wrong = complaint(token)) return InvalidToken{std::move(*wrong)};
  return Token(token);
}

Token& Token::operator=(Token other) noexcept {
  characters_.swap(other.characters_);
  return *this;
}

Token::~Token() {
  if (!characters_.empty()) explicit_bzero(characters_.data(), characters_.size());  // a moved-from one has none
}

std::string make_token() {
  std::array<unsigned char, kGeneratedBytes> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw Error("cannot make a token", "the kernel has no random bytes", "Make one with: openssl rand -hex 32.");
  std::string text;
  for (const unsigned char byte : bytes) text += {kHexDigits[byte >> 4], kHexDigits[byte & 15]};
  explicit_bzero(bytes.data(), bytes.size());
  return text;
}

void wipe(std::string& text) {
  explicit_bzero(text.data(), text.size());
  text.clear();
}

}  // namespace ddprun::rendezvous
