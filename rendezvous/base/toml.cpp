#include "rendezvous/base/toml.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <sstream>
#include <vector>

#include "rendezvous/base/spelling.h"

namespace ddprun {

namespace {

constexpr std::size_t kShownBytes = 80;  // of a line

// Length of the quoted string or comment at the beginning of `text`; 0: neither. An unterminated one ends with its
// line, as the parser stops there.
std::size_t opaque_prefix(std::string_view text) {
  if (text.starts_with('#')) return std::min(text.find('\n'), text.size());
  if (!text.starts_with('"') && !text.starts_with('\'')) return 0;
  const bool basic = text[0] == '"', multi_line = text.starts_with("\"\"\"") || text.starts_with("'''");
  const std::string_view quote = text.substr(0, multi_line ? 3 : 1);
  for (std::size_t at = quote.size(); at < text.size(); ++at) {
    if (basic && text[at] == '\\')
      ++at;
    else if (text.substr(at).starts_with(quote))
      return at + quote.size();
    else if (!multi_line && text[at] == '\n')
      return at;
  }
  return text.size();
}

}  // namespace

std::optional<std::uint32_t> line_with_deep_key(std::string_view text) {
  std::uint32_t line = 1;
  std::size_t dots = 0;  // since the last character that ends a key; a number or a date has one at most
  while (!text.empty()) {
    const std::size_t opaque = opaque_prefix(text);
    line +=
        static_cast<std::uint32_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(opaque), '\n'));
    text.remove_prefix(opaque);
    if (opaque) continue;
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '\n') ++line;
    if (std::string_view("\n=,{}[]").find(c) != std::string_view::npos) dots = 0;
    if (c == '.' && ++dots >= kKeyPartsMax) return line;
  }
  return {};
}

toml::table parse_toml(const std::string& text, const std::string& name) {
  if (const auto line = line_with_deep_key(text))
    throw toml::parse_error(("a key has more than " + std::to_string(kKeyPartsMax) + " parts").c_str(),
                            toml::source_position{*line, 1});
  return toml::parse(text, name);
}

std::string toml_error_message(const toml::parse_error& error, const std::string& text) {
  std::string why(error.description());
  // The parser's message after its "Error while parsing string: ".
  if (const std::size_t colon = why.find(": "); colon != std::string::npos) why.erase(0, colon + 2);
  if (why.starts_with("unescaped control characters")) why = "a string has no closing quote";
  const std::vector<std::string> lines = split(text, '\n');
  const std::size_t line = error.source().begin.line;
  std::string shown = line - 1 < lines.size() ? lines[line - 1] : "";
  if (upper_case(shown).find("PASS") != shown.npos || shown.find('@') != shown.npos) shown.clear();  // a secret
  const bool cut = shown.size() > kShownBytes;
  return (!shown.empty() ? "'" + visible(shown.substr(0, kShownBytes)) + (cut ? "..." : "") + "'"
                         : std::string("this")) +
         " is not valid TOML: " + why;
}

std::string describe_value(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::boolean:
      return node.as_boolean()->get() ? "true" : "false";
    case toml::node_type::integer:
      return std::to_string(node.as_integer()->get());
    case toml::node_type::floating_point:
      return toml_number(node.as_floating_point()->get());
    case toml::node_type::string:
      return "the string '" + visible(node.as_string()->get()) + "'";
    default:
      return "a date or time";
  }
}

std::string toml_string(const std::string& text) {
  std::ostringstream out;
  out << toml::toml_formatter{toml::value<std::string>(text), toml::format_flags::none};
  return out.str();
}

std::string toml_number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace ddprun
