// Completions for bash, zsh and tcsh, made from the option table: names, choices, files and folders, then the program's
// own words. Pure.
#pragma once
#include <string>

namespace ddprun {

// `shell` is bash, zsh or tcsh; of any other the text is empty.
std::string completion(const std::string& shell);

}  // namespace ddprun
