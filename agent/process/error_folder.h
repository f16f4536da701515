// The temporary folder for the workers' error files, which either keeper or agent removes. So it is with a folder in it
// through which the agent reads the workers' records of their collectives.
#pragma once
#include <filesystem>

namespace ddprun::agent {

constexpr const char* kRecordFolder = "record";

// Does nothing if a worker left a file in it. Returns whether the folder stays.
bool remove_without_error_files(const std::filesystem::path& folder);

}  // namespace ddprun::agent
