#include "agent/diagnosis/pattern.h"

#include <algorithm>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace ddprun::agent {
namespace {

constexpr std::uint32_t kHeapMax = 32 * 1024;  // KiB, without JIT: (a|b)* on the longest line takes 2 MiB
constexpr std::size_t kJitStackMin = std::size_t{32} * 1024, kJitStackMax = std::size_t{1024} * 1024;

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string why_invalid(int error, std::size_t at) {
  char text[256] = {};
  pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return std::string(text) + " (at character " + std::to_string(at + 1) + ")";
}

struct Meter {
  SearchBudget& budget;
  std::size_t position = 0;
};

// Called before each item: PCRE2's own limit counts anew at each offset, and differently with JIT.
int charge(pcre2_callout_block* at, void* data) {
  auto& [budget, position] = *static_cast<Meter*>(data);
  const std::size_t before = std::exchange(position, at->current_position);
  const std::uint64_t cost = SearchBudget::kItem + position - std::min(before, position);
  budget.left -= std::min(budget.left, cost);
  return budget.spent() ? PCRE2_ERROR_CALLOUT : 0;
}

}  // namespace

struct Pattern::Compiled {
  explicit Compiled(pcre2_code* made)
      : code(made),
        match(pcre2_match_data_create_from_pattern(made, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    pcre2_set_heap_limit(context, kHeapMax);
  }
  ~Compiled() {
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  // The number of groups found, and the whole; 0 or less: no match.
  int search(std::string_view line, SearchBudget& budget) {
    if (budget.spent()) return 0;
    prepare();
    Meter meter{budget};
    pcre2_set_callout(context, charge, &meter);
    const int found = pcre2_match(code, bytes_of(line), line.size(), 0, 0, match, context);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) budget.left = 0;
    return found;
  }

  // Only before a first search: the launcher compiles patterns to check them. Where JIT is missing or forbidden, PCRE2
  // interprets.
  void prepare() {
    if (std::exchange(prepared, true) || pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) != 0) return;
    stack = pcre2_jit_stack_create(kJitStackMin, kJitStackMax, nullptr);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }

  pcre2_code* code;
  pcre2_match_data* match;
  pcre2_match_context* context;
  pcre2_jit_stack* stack = nullptr;
  bool prepared = false;
};

Pattern::Pattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

// Bytes, not UTF-8: what a worker writes may be anything.
std::variant<Pattern, Pattern::Invalid> Pattern::compile(std::string_view text) {
  int error = 0;
  std::size_t at = 0;
  pcre2_code* const code = pcre2_compile(bytes_of(text), text.size(), PCRE2_AUTO_CALLOUT, &error, &at, nullptr);
  if (!code) return Invalid{why_invalid(error, at)};
  return Pattern(std::make_unique<Compiled>(code));
}

bool Pattern::found_in(std::string_view line, SearchBudget& budget) const {
  return compiled_->search(line.substr(0, kLineMax), budget) > 0;
}

std::optional<std::string> Pattern::captured_in(std::string_view line, SearchBudget& budget) const {
  const int groups = compiled_->search(line.substr(0, kLineMax), budget);
  if (groups <= 0) return {};
  const std::size_t* const ends = pcre2_get_ovector_pointer(compiled_->match);
  const std::size_t group = groups > 1 ? 1 : 0;
  if (ends[2 * group] == PCRE2_UNSET) return std::string();
  return std::string(line.substr(ends[2 * group], ends[2 * group + 1] - ends[2 * group]));
}

}  // namespace ddprun::agent
