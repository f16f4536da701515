// What a worker's last lines of stderr say about its end, where they are well known: a library or module that is
// missing, a command not found, memory that ran out.
//
// Pure: a table of what loaders, shells, Python and C++ write.
#pragma once
#include <string>
#include <vector>

#include "rendezvous/coordination/round.h"

namespace ddprun::agent {

// One sentence with the remedy, without its final stop; empty where the lines are not known. Later lines come first.
std::string meaning_of_lines(const rendezvous::ExitStatus& status, const std::vector<std::string>& last_lines);

// By which two failures are compared (Failure::last_line): the last line that is not empty, printable, at most
// kLastLineMax bytes, without the rank that PyTorch puts before it ("[rank3]: ").
std::string last_line_to_compare(const std::vector<std::string>& last_lines);

}  // namespace ddprun::agent
