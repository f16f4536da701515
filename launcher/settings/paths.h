// Names of files and folders that no shell has read. Pure.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "launcher/settings/option.h"

namespace ddprun::settings {

enum class PathsOf { words, file };  // of the command line and the environment, or of a configuration file

// In the settings in force that name a file or a folder: ~/ at the beginning becomes HOME; in a file's and in the
// environment's also $NAME and ${NAME} their values. Returns a sentence for each that has none.
std::vector<std::string> expand_paths(std::vector<Setting>& settings, PathsOf which,
                                      const std::map<std::string, std::string>& environment);

// Whether a shell would replace something in this name.
bool needs_shell(const std::string& path);

}  // namespace ddprun::settings
