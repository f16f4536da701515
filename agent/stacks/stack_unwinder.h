// Makes frames of captured registers and stacks, by the module libddprun_stacks.so, which is opened when the first one
// is made.
//
// Not thread-safe.
#pragma once
#include <memory>
#include <string>

#include "agent/stacks/thread_capture.h"
#include "agent/stacks/unwind_plugin.h"

namespace ddprun::agent {

class StackUnwinder {
 public:
  StackUnwinder();
  // Fills in the frames, and what is missing. The process must still exist, as its memory map is read.
  void unwind(CapturedProcess& captured);

 private:
  std::unique_ptr<Unwinder> unwinder_;
  std::string missing_;  // why there is none
};

// What to say where the module cannot be opened; `error` is dlerror()'s. Pure.
std::string unwinder_missing(const std::string& error, bool built);

}  // namespace ddprun::agent
