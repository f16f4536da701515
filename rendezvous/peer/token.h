// The secret that all nodes of a job share: whoever has it may join.
//
// A value. A text that people pass on: at least 32 hex digits or 22 characters of base64 or base64url, that is 128 bits
// and more, if it is random; make_token() makes a random one. Its characters are the secret, so all nodes must spell it
// alike. It cannot be printed, and its destructor wipes it from memory. A complaint about a wrong one contains no part
// of it.
#pragma once
#include <iosfwd>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::rendezvous {

// The rest of a sentence: "it takes at least 32 hex digits or ...".
struct InvalidToken {
  std::string complaint;
};

constexpr const char* kTokenVariable = "DDPRUN_TOKEN";  // the environment variable that holds the token

class Token {
 public:
  // Ignores white space around it, such as a file's last newline.
  static std::variant<Token, InvalidToken> parse(std::string_view text);
  Token(const Token&) = default;
  Token(Token&&) noexcept = default;
  Token& operator=(Token other) noexcept;  // wipes the old one
  ~Token();

  std::string_view secret() const { return {characters_.data(), characters_.size()}; }
  bool operator==(const Token& other) const { return secret() == other.secret(); }
  friend std::ostream& operator<<(std::ostream&, const Token&) = delete;

 private:
  explicit Token(std::string_view characters) : characters_(characters.begin(), characters.end()) {}
  std::vector<char> characters_;  // not a string: a short one leaves a copy in every object it is moved from
};

// 64 hex digits from the kernel's random numbers, to be printed. Throws Error if there are none.
std::string make_token();

// Overwrites a text that held a secret.
void wipe(std::string& text);

}  // namespace ddprun::rendezvous
