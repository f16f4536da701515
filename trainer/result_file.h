// The final numbers of a run, for programs: one JSON object in a file.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ddprun::train {

// Before the training: throws Error where the file could not be made at its end.
void check_result_file(const std::string& path);

// Puts the object, indented by two, in the place of whatever was there: whole or not at all. For one rank. NaN and
// infinities, which JSON has not, become null. Error for what the disk refuses.
void write_result_file(const std::string& path, const nlohmann::ordered_json& result);

}  // namespace ddprun::train
