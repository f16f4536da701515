// A configuration file of `train`: TOML, a table for each section.
//
//   [model]
//   name = "resnet18"
//   [optimizer]
//   lr = 0.1
//   [training]
//   epochs = "???"                # must be given with the command line
//
// Pure: the text comes in, settings and sentences go out; beyond their TOML type values are not read here.
#pragma once
#include <string>
#include <vector>

#include "trainer/config/settings.h"

namespace ddprun {

struct ConfigFile {
  std::vector<Setting> settings;
  std::vector<std::string> mistakes;  // "job.toml:3: ...", by line
};

// `name` is the file's, for the sentences.
ConfigFile read_config_file(const std::string& name, const std::string& text);

// All values in force as such a file, and where each came from. `given` holds those that were given.
std::string print_config(const Options& options, const std::vector<Setting>& given);

}  // namespace ddprun
