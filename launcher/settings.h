// Where every value comes from: what a person set, on the command line, in the environment or in a file.
#pragma once
#include <string>
#include <vector>

namespace ddprun {

struct OptionRow;

// The later one of two origins wins.
enum class Origin { normally, file, environment, command_line };

struct Setting {
  const OptionRow* option = nullptr;
  std::string text = {};  // as it was written, read by OptionRow::set
  Origin origin = Origin::normally;
  std::string place = {};  // "--max_restarts", "PET_MAX_RESTARTS", "job.toml:3"
};

// The subject of a sentence about it: "--max_restarts", "PET_MAX_RESTARTS in the environment",
// "job.toml:3: max-restarts".
std::string subject(const Setting& setting);

// The one of `settings` that counts for an option, nullptr where nobody set it. Of equals the last one counts.
const Setting* in_force(const std::vector<Setting>& settings, const OptionRow& option);

}  // namespace ddprun
