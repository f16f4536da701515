// The temporary folder for the workers' error files, which keeper and agent both may have to remove.
#pragma once
#include <filesystem>

namespace ddprun::agent {

// Unless a worker left a file in it. Does it stay?
bool remove_without_error_files(const std::filesystem::path& folder);

}  // namespace ddprun::agent
