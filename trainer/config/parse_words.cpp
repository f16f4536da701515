#include "trainer/config/parse_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <utility>

namespace ddprun::train {

std::optional<EarlyExit> parse_words(CLI::App& app, std::vector<std::string> words,
                                     const std::function<EarlyExit(const std::string& sentence)>& refused) {
  std::reverse(words.begin(), words.end());  // CLI11 reads a vector from its end
  try {
    app.parse(std::move(words));
    return {};
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    if (app.exit(error, out, err) == 0) return EarlyExit{0, out.str()};
    return refused(std::string(error.what()) + ".");
  }
}

}  // namespace ddprun::train
