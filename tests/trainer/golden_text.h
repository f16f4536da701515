// Recorded texts, and how ours differ from them.
#pragma once
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/places.h"

namespace ddprun::test {

// The text of a file below the sources; DDPRUN_UPDATE=1 writes `actual` there before.
inline std::string golden_text(const std::string& name, const std::string& actual) {
  const std::string path = source_folder() + "/" + name;
  if (std::getenv("DDPRUN_UPDATE")) std::ofstream(path) << actual;
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The first line that differs, of both; "" where the texts are equal.
inline std::string first_difference(const std::string& ours, const std::string& theirs) {
  std::istringstream a(ours), b(theirs);
  std::string mine, other;
  for (int line = 1;; ++line) {
    const bool more = static_cast<bool>(std::getline(a, mine)), more_there = static_cast<bool>(std::getline(b, other));
    if (!more && !more_there) return "";
    if (more != more_there || mine != other)
      return "line " + std::to_string(line) + ": ours '" + (more ? mine : "") + "', Python's '" +
             (more_there ? other : "") + "'";
  }
}

}  // namespace ddprun::test
