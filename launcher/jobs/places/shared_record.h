// A job's record as the nodes of a scheduler see it: a folder that all of them must share.
#pragma once
#include <filesystem>
#include <string>

namespace ddprun::launcher {

// For `ddprun run --record FOLDER`. Throws UsageError, with this node's name, where the folder or its job.toml is not
// there or cannot be written.
void check_shared_record(const std::filesystem::path& folder);

}  // namespace ddprun::launcher
