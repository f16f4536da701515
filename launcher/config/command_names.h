// The names of ddprun's commands. A program of such a name is started as ./run.
#pragma once
#include <string>
#include <vector>

namespace ddprun::launcher {

std::vector<std::string> command_names();
// Those of which jobs/job_words.h reads the words.
bool is_job_command(const std::string& word);
const char* description_of(const std::string& job_command);  // a sentence

}  // namespace ddprun::launcher
