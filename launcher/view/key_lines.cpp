#include "launcher/view/key_lines.h"

#include <algorithm>

#include "launcher/view/terminal_line.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {

void KeyLines::add(const std::string& key, const std::string& value) {
  if (value.empty()) return;
  std::string line = key + ":";
  line.resize(std::max(width_, line.size() + 1), ' ');
  text_ += line + visible(value) + "\n";
}

void KeyLines::add_cut(const std::string& key, const std::string& value, std::size_t columns) {
  add(key, terminal_line(value, columns > width_ ? columns - width_ : 0));
}

void KeyLines::add_block(const std::string& key, const std::string& value) {
  if (value.find('\n') == std::string::npos) return add(key, value);
  text_ += key + ":\n";
  for (const std::string& line : split(visible_lines(value), '\n')) text_ += line.empty() ? "" : "  " + line + "\n";
}

}  // namespace ddprun::launcher
