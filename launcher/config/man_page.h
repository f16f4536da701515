// The manual page ddprun(1) in roff, made from the option table. Pure.
#pragma once
#include <string>

namespace ddprun::launcher {

std::string man_page();

}  // namespace ddprun::launcher
