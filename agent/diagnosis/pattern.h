// A regular expression of the job's rules, in Perl's syntax (PCRE2), for lines of a worker's output.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::agent {

class Pattern {
 public:
  struct Invalid {
    std::string why;  // "missing closing parenthesis (at character 7)"
  };
  static std::variant<Pattern, Invalid> compile(std::string_view text);

  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // Gives up on a line that takes too many steps: then it does not match.
  bool found_in(std::string_view line) const;
  // What the first group in parentheses holds, or all that matches if there is none. Empty: no match.
  std::optional<std::string> captured_in(std::string_view line) const;

 private:
  struct Compiled;
  explicit Pattern(std::unique_ptr<Compiled> compiled);

  std::unique_ptr<Compiled> compiled_;
};

// Whether one of the lines matches. An invalid pattern matches none.
bool found_in_lines(const std::string& pattern, const std::vector<std::string>& lines);

}  // namespace ddprun::agent
