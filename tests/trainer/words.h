// Command lines and texts in the tests.
#pragma once
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/places.h"

namespace ddprun::test {

using Words = std::vector<std::string>;

// "a b" gives {"a", "b"}.
inline Words split(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

inline Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

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
