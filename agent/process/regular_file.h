// Regular files that others may have put there or replaced: reading one never blocks, and writing leaves no half of it.
//
// Nothing here throws: what cannot be read is empty.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace ddprun::agent {

// At most the first `bytes_max` of a regular file; whatever else a worker put there (a pipe, a folder) reads as empty.
enum class Links { followed, refused };
std::string beginning_of_file(const std::filesystem::path& path, std::size_t bytes_max, Links links = Links::followed);

// The newest 64 KiB, at most, of what the regular file holds behind its byte `begin`; empty where that is nothing. A
// link is not followed.
std::string newest_part(const std::filesystem::path& path, std::uintmax_t begin);
// In one step: a reader never sees half of it. A link, device or pipe at the path stays and is written to. False, with
// errno: not possible.
bool replace_file(const std::filesystem::path& path, const std::string& content);

}  // namespace ddprun::agent
