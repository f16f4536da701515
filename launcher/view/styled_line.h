// A line of a terminal as a value: pieces of text, each with its meaning. Colours come at the edge (terminal.h). Pure.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::launcher {

// What a piece of text means, not how it looks.
enum class Style { plain, strong, dim, good, busy, attention, bad, load, compute, wait };

struct Span {
  std::string text = {};
  Style style = Style::plain;
  friend bool operator==(const Span&, const Span&) = default;
};

class StyledLine {
 public:
  StyledLine() = default;
  StyledLine(const std::string& text, Style style = Style::plain) { add(text, style); }
  // What comes from other machines cannot act on the terminal (visible()).
  StyledLine& add(const std::string& text, Style style = Style::plain);
  StyledLine& add(const StyledLine& more);
  // Blanks, until it has so many characters.
  StyledLine& fill(std::size_t characters);
  // Without what is behind so many characters; if there is more, it ends with ">".
  StyledLine cut(std::size_t columns) const;
  // Without blanks at the end.
  StyledLine trimmed() const;

  std::size_t width() const;  // in characters
  std::string text() const;
  const std::vector<Span>& spans() const { return spans_; }

 private:
  std::vector<Span> spans_ = {};
};

// Characters of UTF-8.
std::size_t characters_in(const std::string& text);

// A sentence in at most `lines_max` lines of `columns` characters, broken at blanks: `label` before the first one, the
// others as far to the right. What does not fit ends with ">".
std::vector<StyledLine> wrapped_sentence(const Span& label, const Span& sentence, std::size_t columns,
                                         std::size_t lines_max);

}  // namespace ddprun::launcher
