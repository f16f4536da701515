// A loss as people are shown it. Pure.
#pragma once
#include <cstdio>
#include <string>

namespace ddprun {

// Four significant digits: "0.2130", "1234", "1.235e+04".
inline std::string loss_text(double loss) {
  char text[32];
  std::snprintf(text, sizeof text, "%#.4g", loss);
  const std::string out = text;
  return out.ends_with('.') ? out.substr(0, out.size() - 1) : out;
}

}  // namespace ddprun
