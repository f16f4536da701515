// A regular expression of the job's rules, in Perl's syntax (PCRE2), for lines of a worker's output.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace ddprun::agent {

// What a search may cost, from all offsets of the line together: a byte for each that is passed, kItem for each item of
// the pattern that is tried. A count, not a clock: whether a rule applies must not depend on how busy a machine is.
struct SearchBudget {
  static constexpr std::uint64_t kItem = 16;
  static constexpr std::uint64_t kLine = 10'000'000;  // 2 to 4 ms with PCRE2's JIT

  std::uint64_t left = kLine;
  bool spent() const { return left == 0; }
};

// One thread at a time may use it.
class Pattern {
 public:
  static constexpr std::size_t kLineMax = std::size_t{4} * 1024;  // the rest of a longer line is not searched

  struct Invalid {
    std::string why;  // "missing closing parenthesis (at character 7)"
  };
  static std::variant<Pattern, Invalid> compile(std::string_view text);

  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // A search that the budget, or the memory for it, does not allow finds nothing and leaves the budget spent.
  bool found_in(std::string_view line, SearchBudget& budget) const;
  // What the first group in parentheses holds, or all that matches if there is none. Empty: no match.
  std::optional<std::string> captured_in(std::string_view line, SearchBudget& budget) const;

 private:
  struct Compiled;
  explicit Pattern(std::unique_ptr<Compiled> compiled);

  std::unique_ptr<Compiled> compiled_;
};

}  // namespace ddprun::agent
