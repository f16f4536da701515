// Why a blocking connection or look-up with a deadline failed.
#pragma once
#include <stdexcept>

namespace ddprun {

struct DeadlineExceeded : std::runtime_error {  // the deadline passed
  using std::runtime_error::runtime_error;
};
struct ConnectionError : std::runtime_error {  // the connection is unusable
  using std::runtime_error::runtime_error;
};

}  // namespace ddprun
