// The words of the command line: which are options, with which values, and where the program begins.
//
// Words only: values are not read here, so that a wrong one does not hide the next. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/settings.h"

namespace ddprun {

struct Words {
  std::vector<Setting> settings;  // in the order of the table, of a repeated option the last one
  std::vector<std::string> program;
  std::vector<std::string> mistakes;  // unknown and ambiguous options, missing values: one sentence each
};

// `arguments` without the program's own name. The first word that is no option begins the program's own part; "--" ends
// ours. Names may be abbreviated as long as one option alone begins so.
Words read_words(const std::vector<std::string>& arguments);

}  // namespace ddprun
