#include "launcher/view/terminal_look.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr const char* kReverse = "7";
constexpr const char* kReset = "\x1b[m";

// SGR's parameters, as a terminal without colours has them, and with the eight that every other one has.
struct Look {
  Style style;
  const char *without, *with;
};
constexpr std::array<Look, 10> kLooks{{{Style::plain, "", ""},
                                       {Style::strong, "1", "1"},
                                       {Style::dim, "", "2"},
                                       {Style::good, "", "32"},
                                       {Style::busy, "", "94"},
                                       {Style::attention, "1", "1;33"},
                                       {Style::bad, "1", "1;31"},
                                       {Style::load, "", "30;44"},
                                       {Style::compute, "", "30;42"},
                                       {Style::wait, "", "37;100"}}};

const char* parameters(Style style, bool colours) {
  const auto* look = std::find_if(kLooks.begin(), kLooks.end(), [&](const Look& one) { return one.style == style; });
  return colours ? look->with : look->without;
}

// The first one that is set counts, as in setlocale().
std::string locale_name(const std::map<std::string, std::string>& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const auto found = environment.find(name); found != environment.end() && !found->second.empty())
      return found->second;
  return {};
}

}  // namespace

TerminalLook terminal_look(const std::map<std::string, std::string>& environment) {
  const auto value = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  const std::string terminal = value("TERM");
  const bool without = terminal.empty() || terminal == "dumb" || terminal.starts_with("vt") ||
                       terminal.ends_with("-m") || terminal.ends_with("-mono");
  std::string locale = locale_name(environment);
  for (char& letter : locale) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  const bool unicode = locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
  return {value("NO_COLOR").empty() && !without, unicode};
}

std::string with_escapes(const StyledLine& line, bool selected, std::size_t columns, const TerminalLook& look) {
  StyledLine shown = line;
  if (selected) shown.fill(columns);
  std::string out;
  for (const Span& span : shown.spans()) {
    const bool is_quiet = selected && span.style != Style::attention && span.style != Style::bad;
    std::string sgr = is_quiet ? "" : parameters(span.style, look.colours);
    if (selected) sgr = sgr.empty() ? kReverse : sgr + ";" + kReverse;
    out += sgr.empty() ? span.text : "\x1b[" + sgr + "m" + span.text + kReset;
  }
  return out;
}

}  // namespace ddprun::launcher
