// The secret that all nodes of a job share: whoever has it may join.
//
// A value. It is text as a person passes it on: at least 32 hex digits or 22 characters of base64 or base64url, that is
// 128 bits and more, if it is random; make_token() makes one that is. Its characters are the secret, so all nodes must
// write it alike. It cannot be printed, and it is wiped from memory where it ends. What is said about a wrong one holds
// no part of it.
#pragma once
#include <iosfwd>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::rendezvous {

// The rest of a sentence: "it takes at least 32 hex digits or ...".
struct NoToken {
  std::string complaint;
};

constexpr const char* kTokenVariable = "DDPRUN_TOKEN";  // of the environment, with the token itself

class Token {
 public:
  // White space around it, a file's last newline for one, is left out.
  static std::variant<Token, NoToken> parse(std::string_view text);
  Token(const Token&) = default;
  Token(Token&&) noexcept = default;
  Token& operator=(Token other) noexcept;  // wipes what was here
  ~Token();

  std::string_view secret() const { return {characters_.data(), characters_.size()}; }
  bool operator==(const Token& other) const { return secret() == other.secret(); }
  friend std::ostream& operator<<(std::ostream&, const Token&) = delete;

 private:
  explicit Token(std::string_view characters) : characters_(characters.begin(), characters.end()) {}
  std::vector<char> characters_;  // no string: a short one would stay behind in every object it was moved from
};

// 64 hex digits from the kernel's randomness, to be printed. Throws Error where there is none.
std::string make_token();

// Overwrites a text that held a secret.
void wipe(std::string& text);

}  // namespace ddprun::rendezvous
