#include "launcher/view/styled_line.h"

#include <algorithm>

#include "launcher/view/terminal_line.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kIndentMax = 24, kIndentOfLongLabel = 2;

bool is_first_byte(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// Splits off what fits: whole words; of one that is longer than a line, the whole word, which is cut then.
std::string take_line(std::vector<std::string>& words, std::size_t columns) {
  std::string line;
  while (!words.empty()) {
    const bool fits = characters_in(line) + 1 + characters_in(words.front()) <= columns;
    if (!line.empty() && !fits) break;
    line += (line.empty() ? "" : " ") + words.front();
    words.erase(words.begin());
  }
  return line;
}

}  // namespace

std::size_t characters_in(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_first_byte));
}

StyledLine& StyledLine::add(const std::string& text, Style style) {
  if (text.empty()) return *this;
  if (!spans_.empty() && spans_.back().style == style)
    spans_.back().text += visible(text);
  else
    spans_.push_back({visible(text), style});
  return *this;
}

StyledLine& StyledLine::add(const StyledLine& more) {
  for (const Span& span : more.spans_) add(span.text, span.style);
  return *this;
}

StyledLine& StyledLine::fill(std::size_t characters) {
  const std::size_t now = width();
  return now < characters ? add(std::string(characters - now, ' ')) : *this;
}

StyledLine StyledLine::cut(std::size_t columns) const {
  if (width() <= columns) return *this;
  StyledLine out;
  std::size_t left = columns;
  for (const Span& span : spans_) {
    const std::size_t size = characters_in(span.text);
    if (size >= left) {  // there is more, in this piece or behind it
      std::string part = terminal_line(span.text, left);
      if (size == left) part = terminal_line(span.text + " ", left);
      out.add(part, span.style);
      break;
    }
    out.add(span.text, span.style);
    left -= size;
  }
  return out;
}

StyledLine StyledLine::trimmed() const {
  StyledLine out = *this;
  while (!out.spans_.empty()) {
    std::string& last = out.spans_.back().text;
    last.erase(last.find_last_not_of(' ') + 1);
    if (!last.empty()) break;
    out.spans_.pop_back();
  }
  return out;
}

std::size_t StyledLine::width() const {
  std::size_t out = 0;
  for (const Span& span : spans_) out += characters_in(span.text);
  return out;
}

std::string StyledLine::text() const {
  std::string out;
  for (const Span& span : spans_) out += span.text;
  return out;
}

std::vector<StyledLine> wrapped_sentence(const Span& label, const Span& sentence, std::size_t columns,
                                         std::size_t lines_max) {
  const std::size_t label_size = characters_in(visible(label.text));
  const std::size_t indent = label_size <= std::min(kIndentMax, columns / 3) ? label_size : kIndentOfLongLabel;
  std::vector<std::string> words = split(visible(sentence.text), ' ');
  std::vector<StyledLine> out;
  while (out.size() < lines_max && (out.empty() || !words.empty())) {
    const std::size_t used = out.empty() ? label_size : indent;
    StyledLine line = out.empty() ? StyledLine(label.text, label.style) : StyledLine(std::string(indent, ' '));
    std::string text = take_line(words, columns > used ? columns - used : 0);
    if (out.size() + 1 == lines_max)
      for (; !words.empty(); words.erase(words.begin())) text += " " + words.front();
    out.push_back(line.add(text, sentence.style).cut(columns));
  }
  return out;
}

}  // namespace ddprun::launcher
