// A configuration file: TOML whose keys are the options' names, with dashes or underscores.
//
//   nproc-per-node = 4
//   log-dir = "logs"
//   local-ranks-filter = [0, 1]                # a list, for options that take one
//   program = ["train", "--lr", "0.1"]         # where the command line names none
//   [env]                                      # further variables for the workers
//   NCCL_DEBUG = "INFO"
//
// Values are not read here beyond their type. Pure: the text comes in, settings and sentences go out.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "launcher/settings.h"

namespace ddprun {

struct ConfigFile {
  std::vector<Setting> settings;
  std::vector<std::string> program;
  std::string program_place;
  std::map<std::string, std::string> env;
  std::vector<std::string> mistakes;
};

// `name` is the file's, for "job.toml:3: ...".
ConfigFile read_config_file(const std::string& name, const std::string& text);

// Texts as a TOML array, and a key.
std::string toml_array(const std::vector<std::string>& texts);
std::string toml_key(const std::string& name);

}  // namespace ddprun
