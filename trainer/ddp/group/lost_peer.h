// What an exception of LibTorch, gloo or NCCL means, and says.
#pragma once
#include <exception>
#include <string>

namespace ddprun {

// Of LibTorch's text only the first line, without gloo's leading source line and LibTorch's backtrace; of NCCL also its
// own last error, which comes some lines later.
std::string reason(const std::exception& error);

}  // namespace ddprun
