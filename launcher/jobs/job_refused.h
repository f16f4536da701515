// What ends a command about a job with one sentence.
#pragma once
#include <stdexcept>

namespace ddprun::launcher {

// A sentence about a job or its file, as it is.
class JobRefused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace ddprun::launcher
