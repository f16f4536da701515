// Which head of a file of JSON lines stays when a run resumes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::train {

class RowFile;

// Bytes of the lines up to and with `resumed_step` (nothing: none of them). A last line that a crash has torn does not
// count. Throws Error, naming `path` and the line, where the file is not one of ours: a line that is no JSON object
// with a "step", steps that go back, a line longer than kLineBytesMax. Of the file one piece at a time is in memory.
std::uint64_t bytes_to_keep(const RowFile& file, std::optional<std::int64_t> resumed_step, const std::string& path);

inline constexpr std::size_t kLineBytesMax = 1 << 20;

}  // namespace ddprun::train
