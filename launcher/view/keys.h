// What is typed at a terminal, as keys. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

enum class Key { up, down, page_up, page_down, home, end, open, escape, sort, stacks, drain, yes, quit, other };

// `bytes`: what was read at once. Sequences that are not known are other, once each.
std::vector<Key> keys_of(std::string_view bytes);

}  // namespace ddprun::launcher
