// How errors are handled. Refused by the system or the user's input: throw Error, caught once, in main. A broken
// invariant: check(), on in every build. A worker's failure and an unauthenticated peer's bad bytes are values.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace ddprun {

// Reads as one line: "<what>: <why>. <remedy>", e.g.
// "cannot bind the store to port 29500: address already in use. Pass another --master-port, or 0 for any free one."
class Error : public std::runtime_error {
 public:
  Error(const std::string& what, const std::string& why, const std::string& remedy = "")
      : std::runtime_error(what + ": " + why + "." + (remedy.empty() ? "" : " " + remedy)) {}
};

// An Error in what the user asked for: no such program, no such folder.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Ends the process if `condition` does not hold: to continue with a broken invariant would do more damage. Writes
// straight to stderr, as nothing else can be relied on any more.
inline void check(bool condition, const char* invariant) {
  if (condition) return;
  std::fprintf(stderr, "ddprun: internal error: not true: %s. Please report this.\n", invariant);
  std::abort();
}

}  // namespace ddprun
