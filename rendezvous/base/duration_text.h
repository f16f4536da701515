// A time in words, as people read it: "4.7 s", "26 s", "12 min 5 s", "3 h 12 min", "2 d 4 h".
#pragma once
#include <string>

namespace ddprun {

std::string duration_text(double seconds);
std::string short_duration_text(double seconds);  // "12m05s", at most 7 characters

}  // namespace ddprun
