// Decides how much of a file of JSON lines is kept when a run resumes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::train {

class RowFile;

// Bytes of the lines up to and including `resumed_step` (empty: none). A last line that a crash has torn is dropped.
// Throws Error, naming `path` and the line, if the file is not one of ours: a line that is not a JSON object with a
// "step", decreasing steps, a line longer than kLineBytesMax. Reads the file piece by piece.
std::uint64_t bytes_to_keep(const RowFile& file, std::optional<std::int64_t> resumed_step, const std::string& path);

inline constexpr std::size_t kLineBytesMax = 1 << 20;

}  // namespace ddprun::train
