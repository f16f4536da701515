// Which files are damaged: their bytes prove it. What this machine lacks (memory, a disk that answers) proves nothing
// of a file, and is never one of these.
#pragma once
#include <stdexcept>

#include "rendezvous/base/error.h"

namespace ddprun {

// By the parsers, which do not know the file's name: "its pickle is cut short".
class Malformed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// With the file's name.
class DamagedFile : public Error {
 public:
  using Error::Error;
};

}  // namespace ddprun
