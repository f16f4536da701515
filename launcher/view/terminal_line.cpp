#include "launcher/view/terminal_line.h"

#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

// A character has a first byte, and others that begin with the bits 10.
bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

std::string terminal_line(const std::string& shown, std::size_t columns) {
  const std::string text = visible(shown);
  std::size_t characters = 0, last = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!begins_character(text[i])) continue;
    if (++characters > columns) return text.substr(0, last) + ">";
    last = i;
  }
  return text;
}

}  // namespace ddprun::launcher
