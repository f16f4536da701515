// ProcessGroupGloo.hpp includes it for std::runtime_error only. The classes are those of Gloo's exceptions, to be told
// apart by type: dynamic_cast compares names.
#pragma once
#include <stdexcept>

namespace gloo {

struct Exception : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct IoException : Exception {  // also a time-out
  using Exception::Exception;
};

}  // namespace gloo
