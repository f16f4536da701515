// Creates or replaces a file: whole or not at all, even if the machine crashes.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// Writes the pieces in order to a temporary file, syncs and renames it, and syncs the folder. On a disk error throws
// Error, with `what` in it, and leaves nothing behind. One writer of a path at a time in a process.
void replace_file(const std::string& path, const std::vector<std::string_view>& pieces, const std::string& what);

}  // namespace ddprun
