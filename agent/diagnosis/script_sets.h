// Finds in a Python script where it sets a variable that ddprun has set for the worker, such as MASTER_PORT.
//
// Pure, and careful: only statements of their own that set one in os.environ by its name. Not under a condition, by
// which scripts also run without a launcher, and not behind a line that has read the variable: what it is set to may be
// what it was.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

struct ScriptSets {
  int line = 0;  // from 1
  std::string variable;
};
// The first such line. What stands in strings and comments does not count.
std::optional<ScriptSets> script_sets(const std::string& text);

// The script that a command has a Python run: of {"python3", "-u", "train.py"}. Empty: another program, a module, or a
// text.
std::string script_of(const std::vector<std::string>& argv);

}  // namespace ddprun::agent
