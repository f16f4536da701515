// Exceptions for files whose bytes are damaged. Failures of this machine (no memory, disk errors) do not mean that a
// file is damaged, and are never one of these.
#pragma once
#include <stdexcept>

#include "rendezvous/base/error.h"

namespace ddprun {

// Thrown by the parsers, which do not know the file's name: "its pickle is cut short".
class Malformed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Includes the file's name.
class DamagedFile : public Error {
 public:
  using Error::Error;
};

}  // namespace ddprun
