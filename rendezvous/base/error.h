// How the project fails. The world refused us: throw Error, caught once, in main. We are wrong: check(), on in every
// build. A worker's failure and an unauthenticated peer's bad bytes are neither: they are values.
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

// The same, where what a person asked for cannot be had: no such program, no such folder.
class UsageError : public Error {
 public:
  using Error::Error;
};

// The process ends here if `condition` does not hold: going on with a broken invariant would hurt more. Its last words
// go to stderr at once, as nothing of ours can be relied on any more.
inline void check(bool condition, const char* invariant) {
  if (condition) return;
  std::fprintf(stderr, "ddprun: internal error: %s does not hold. Please report this.\n", invariant);
  std::abort();
}

}  // namespace ddprun
