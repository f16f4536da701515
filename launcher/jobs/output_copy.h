// Copies one output stream of the job to ours and, line by line, to the log of its record.
//
// A thread, as a console may block: a job must not wait for it when it is to be stopped.
#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "launcher/jobs/recurring_problem.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {

// The log of a record. Thread-safe.
class JobLog {
 public:
  // Appends. `say` gets sentences, from any thread. Throws Error.
  JobLog(const std::filesystem::path& file, std::function<void(const std::string&)> say);
  // What finds no room is lost, which is said once, and how much it was once there is room again.
  void write(std::string_view bytes);

 private:
  const std::filesystem::path path_;
  const std::function<void(const std::string&)> say_;
  const Fd file_;
  std::mutex mutex_;
  RecurringProblem problem_;
  std::size_t lost_ = 0;
};

class OutputCopy {
 public:
  // `from`: a pipe's reading end. `console`: 1 or 2. Throws Error if there can be no thread.
  OutputCopy(Fd from, int console, std::shared_ptr<JobLog> log);
  // Until the pipe has ended and all is written; a console that blocks for longer keeps its thread until we end.
  void await_end(Duration limit);

 private:
  std::future<void> done_;
};

}  // namespace ddprun::launcher
