// Options from environment variables: PET_MAX_RESTARTS for --max-restarts. Pure.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "launcher/settings/option.h"

namespace ddprun::settings {

struct EnvOptions {
  std::vector<Setting> settings;
  std::vector<std::string> mistakes;  // a variable that is nearly a known one
};

// Empty variables set nothing; unrelated variables with the same prefix are ignored.
EnvOptions read_environment(const Table& table, const std::map<std::string, std::string>& environment);

}  // namespace ddprun::settings
