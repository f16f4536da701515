#include "rendezvous/toml.h"

#include <charconv>
#include <sstream>
#include <vector>

#include "rendezvous/spelling.h"

namespace ddprun {

static constexpr std::size_t kShownBytes = 80;  // of a line

std::string not_toml(const toml::parse_error& error, const std::string& text) {
  std::string why(error.description());
  // The parser's words behind its "Error while parsing string: ".
  if (const std::size_t colon = why.find(": "); colon != std::string::npos) why.erase(0, colon + 2);
  if (why.starts_with("unescaped control characters")) why = "a text has no closing quote";
  const std::vector<std::string> lines = split(text, '\n');
  const std::size_t line = error.source().begin.line;
  const std::string shown = line - 1 < lines.size() ? lines[line - 1] : "";
  const bool cut = shown.size() > kShownBytes;
  return (!shown.empty() ? "'" + visible(shown.substr(0, kShownBytes)) + (cut ? "..." : "") + "'"
                         : std::string("this")) +
         " is no TOML: " + why;
}

std::string what_it_is(const toml::node& node) {
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
      return "the text '" + visible(node.as_string()->get()) + "'";
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
