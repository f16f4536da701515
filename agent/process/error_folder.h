// The temporary folder for the workers' error files, which either keeper or agent removes.
#pragma once
#include <filesystem>

namespace ddprun::agent {

// Does nothing if a worker left a file in it. Returns whether the folder stays.
bool remove_without_error_files(const std::filesystem::path& folder);

}  // namespace ddprun::agent
