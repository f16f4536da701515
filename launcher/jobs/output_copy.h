// Copies one output stream of the job to ours and, line by line, to the log of its record.
//
// A thread, as a console may block: a job must not wait for it when it is to be stopped.
#pragma once
#include <future>
#include <memory>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {

class OutputCopy {
 public:
  // `from`: a pipe's reading end. `console`: 1 or 2. `log` is open for appending; what cannot be written there is lost.
  // Throws Error if there can be no thread.
  OutputCopy(Fd from, int console, std::shared_ptr<const Fd> log);
  // Until the pipe has ended and all is written; a console that blocks for longer keeps its thread until we end.
  void await_end(Duration limit);

 private:
  std::future<void> done_;
};

}  // namespace ddprun::launcher
