// Writes how the job ended to the file that DDPRUN_END_FILE names, for the program that started ddprun.
//
// A variable instead of an option, as it must work even if the command line is invalid. Workers do not inherit it.
#pragma once
#include <string>

#include "agent/logs/job_end.h"

namespace ddprun::launcher {

// Returns and unsets the variable. Call it once, before the environment is read.
std::string take_end_file_variable();
// Atomic; an empty path means no file. A file that cannot be written, or not within 5 s, causes one sentence on stderr.
void write_end_file(const std::string& path, const agent::JobEnd& end);

}  // namespace ddprun::launcher
