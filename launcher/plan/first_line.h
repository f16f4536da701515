// Reads the first line of a script: whose language it is in. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// Of the file: the first line, of which the kernel reads 256, comments, and the line below them.
constexpr std::size_t kFirstLineBytes = 4096;

// The command that its first line names, if that is known not to be Python: {"bash"}, {"perl", "-w"}. Else empty.
// `beginning`: of the file.
std::vector<std::string> foreign_interpreter(std::string_view beginning);

}  // namespace ddprun::launcher
