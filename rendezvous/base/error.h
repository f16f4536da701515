// How the project fails. The world refused us: throw Error, caught once, in main. We are wrong: check(), on in every
// build. A worker's failure and an unauthenticated peer's bad bytes are neither: they are values.
#pragma once
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "rendezvous/base/print_line.h"

namespace ddprun {

// Reads as one line: "<what>: <why>. <remedy>", e.g.
// "cannot bind the store to port 29500: address already in use. Pass another --master-port, or 0 for any free one."
class Error : public std::runtime_error {
 public:
  Error(const std::string& what, const std::string& why, const std::string& remedy = "")
      : std::runtime_error(what + ": " + why + "." + (remedy.empty() ? "" : " " + remedy)) {}
};

// The same, where what a person asked for cannot be had: no such program, no such folder.
class UsageError : public Error {
 public:
  using Error::Error;
};

// The process ends here if `condition` does not hold: going on with a broken invariant would hurt more.
inline void check(bool condition, const char* invariant) {
  if (condition) return;
  print_line(stderr, std::string("ddprun: internal error: ") + invariant + " does not hold. Please report this.");
  std::abort();
}

}  // namespace ddprun
