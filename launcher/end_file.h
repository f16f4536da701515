// The file in which the program that started ddprun reads how the job ended: DDPRUN_END_FILE names it.
//
// A variable and no option: a command line that cannot be read has an end, too. Workers do not inherit it.
#pragma once
#include <string>

#include "agent/logs/job_end.h"

namespace ddprun::launcher {

// Takes the variable away. Once, before the environment is read.
std::string take_end_file_variable();
// In one step; a path that is empty is none. A file that cannot be written costs one sentence on stderr.
void write_end_file(const std::string& path, const agent::JobEnd& end);

}  // namespace ddprun::launcher
