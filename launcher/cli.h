// Fills a Config from the command line and its environment twins. One table (cli.cpp) holds every option with its
// spellings, default and help; to add an option, add a line there and a member to Config.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "launcher/config.h"

namespace ddprun {

// --help and --version: print it and end with 0.
struct Answer {
  std::string text;
};
// What is wrong, one sentence each.
struct Mistakes {
  std::vector<std::string> sentences;
};

// `arguments` without the program's own name. Precedence: command line, PET_<OPTION> in the environment, default. Of a
// repeated option the last one counts. The first word that is no option starts the program's own part.
std::variant<Config, Answer, Mistakes> parse(const std::vector<std::string>& arguments);

}  // namespace ddprun
