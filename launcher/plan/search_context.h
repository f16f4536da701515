// Reads from the environment and the disk what the search for programs and for Python needs.
#pragma once
#include <string>

#include "launcher/plan/interpreter.h"

namespace ddprun::launcher {

FileKind kind_of_file(const std::string& path);

// This program's own file, without links; empty if /proc is not there.
std::string own_binary();

// The path by which ddprun was called, links kept: for whoever starts it again, so that it finds the same Python there.
// If that path does not lead here, the binary's own. Throws Error.
std::string own_program();

SearchContext search_context();

}  // namespace ddprun::launcher
