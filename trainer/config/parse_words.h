// The words of one of train's verbs, by CLI11. Pure.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/command_line.h"

namespace CLI {
class App;
}

namespace ddprun::train {

// Nothing, if the values of `app` are those of the words; else its help, or what `refused` makes of a sentence.
// `usage`: "train tour [NAME] [options]".
std::optional<EarlyExit> parse_words(CLI::App& app, const std::string& usage, std::vector<std::string> words,
                                     const std::function<EarlyExit(const std::string& sentence)>& refused);

}  // namespace ddprun::train
