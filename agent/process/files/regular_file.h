// Regular files that others may have created or replaced: a read never blocks, a write is never left incomplete.
//
// Nothing here throws: what cannot be read is empty.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace ddprun::agent {

// At most the first `bytes_max` of a regular file; anything else that a worker made (a pipe, a folder) reads as empty.
enum class Links { followed, refused };
std::string beginning_of_file(const std::string& path, std::size_t bytes_max, Links links = Links::followed);

// At most the newest 64 KiB of the regular file after its byte `begin`; empty if there are none. Links are not
// followed.
std::string newest_part(const std::filesystem::path& path, std::uintmax_t begin);
// Who may read the new file: whom the umask lets, or its owner alone.
enum class Readers { all, owner };
// Atomic: a reader never sees half of it, also after a crash of the machine. A link, device or pipe at the path is kept
// and written to. False: it failed, see errno, and nothing of it is left.
bool replace_file(const std::filesystem::path& path, const std::string& content, Readers readers = Readers::all);

}  // namespace ddprun::agent
