#include "agent/diagnosis/pattern.h"

#include <algorithm>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace ddprun::agent {
namespace {

constexpr std::uint32_t kStepsMax = 100'000;  // of one search: a line is at most a few KiB

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string why_invalid(int error, std::size_t at) {
  char text[256] = {};
  pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return std::string(text) + " (at character " + std::to_string(at + 1) + ")";
}

}  // namespace

struct Pattern::Compiled {
  explicit Compiled(pcre2_code* made)
      : code(made),
        match(pcre2_match_data_create_from_pattern(made, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    pcre2_set_match_limit(context, kStepsMax);
  }
  ~Compiled() {
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  // The number of groups found, and the whole; 0 or less: no match.
  int search(std::string_view line) const {
    return pcre2_match(code, bytes_of(line), line.size(), 0, 0, match, context);
  }

  pcre2_code* code;
  pcre2_match_data* match;
  pcre2_match_context* context;
};

Pattern::Pattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

// Bytes, not UTF-8: what a worker writes may be anything.
std::variant<Pattern, Pattern::Invalid> Pattern::compile(std::string_view text) {
  int error = 0;
  std::size_t at = 0;
  pcre2_code* const code = pcre2_compile(bytes_of(text), text.size(), 0, &error, &at, nullptr);
  if (!code) return Invalid{why_invalid(error, at)};
  return Pattern(std::make_unique<Compiled>(code));
}

bool Pattern::found_in(std::string_view line) const { return compiled_->search(line) > 0; }

std::optional<std::string> Pattern::captured_in(std::string_view line) const {
  const int groups = compiled_->search(line);
  if (groups <= 0) return {};
  const std::size_t* const ends = pcre2_get_ovector_pointer(compiled_->match);
  const std::size_t group = groups > 1 ? 1 : 0;
  if (ends[2 * group] == PCRE2_UNSET) return std::string();
  return std::string(line.substr(ends[2 * group], ends[2 * group + 1] - ends[2 * group]));
}

bool found_in_lines(const std::string& pattern, const std::vector<std::string>& lines) {
  const auto compiled = Pattern::compile(pattern);
  const auto* usable = std::get_if<Pattern>(&compiled);
  return usable &&
         std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return usable->found_in(line); });
}

}  // namespace ddprun::agent
