// Whether a program uses the worker channel, told by its file: for a worker that ends before it has attached.
#pragma once
#include <string>
#include <vector>

namespace ddprun::agent {

// True if the program's file, or the script among its arguments, names the channel or the library's Worker. False also
// if no file can be read.
bool names_channel(const std::string& program, const std::vector<std::string>& argv);

}  // namespace ddprun::agent
