// Writes the final numbers of a run, for programs: one JSON object in a file.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ddprun::train {

// Call it before the training: throws Error if the file could not be written at the end.
void check_result_file(const std::string& path);

// Replaces the file with the object, indented by two: whole or not at all. One rank calls it. NaN and infinities, which
// JSON lacks, become null. Throws Error on a disk error.
void write_result_file(const std::string& path, const nlohmann::ordered_json& result);

}  // namespace ddprun::train
