// Which ddprun this is.
#pragma once
#include <string>

namespace ddprun {

// That of the project, as CMakeLists.txt has it: "0.2.0".
const char* version();

// What a program answers to --version: "train 0.2.0 (commit abc1234)" and a line end.
std::string version_line(const std::string& program, const std::string& commit);

// Of the sources that a program was built from: "abc1234", "abc1234-dirty" if files had been changed, or "unknown".
// Only programs that link ddprun_commit have it (cmake/Commit.cmake); what they hand it to need not be linked again for
// each commit.
extern const char* const kCommit;

}  // namespace ddprun
