// A file put in the place of another, or of none: whole or not at all, whenever the machine stops.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// The pieces one after the other, under a temporary name, synced, renamed, and the folder synced. Error, with `what`
// in it, for what the disk refuses; then nothing of it is left. One writer of a path at a time in a process.
void replace_file(const std::string& path, const std::vector<std::string_view>& pieces, const std::string& what);

}  // namespace ddprun
