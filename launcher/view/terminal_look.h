// What a terminal can show, from the environment of who writes to it; and a line in its escape sequences. Pure.
#pragma once
#include <cstddef>
#include <map>
#include <string>

#include "launcher/view/styled_line.h"

namespace ddprun::launcher {

struct TerminalLook {
  bool colours = false;  // not with NO_COLOR, nor where TERM names a terminal without them
  bool unicode = false;  // the locale is UTF-8
};
TerminalLook terminal_look(const std::map<std::string, std::string>& environment);

// `selected`: reversed as a whole, up to `columns`; what is wrong keeps its colour.
std::string with_escapes(const StyledLine& line, bool selected, std::size_t columns, const TerminalLook& look);

}  // namespace ddprun::launcher
