// Whether two snapshots of `train` hold the same weights and the same state of the optimizer, bit for bit.
#pragma once
#include <string>

#include "tests/e2e/programs.h"
#include "tests/support/command.h"

namespace ddprun::test {

inline Ended same_weights(const std::string& one, const std::string& other) {
  return run({torch_python(), source_folder() + "/tests/e2e/same_weights.py", one, other}, 3 * kLimit);
}

}  // namespace ddprun::test
