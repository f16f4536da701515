// Where a job's events go: nowhere, to the console, or to a file, a line each.
#pragma once
#include <functional>
#include <string>

#include "agent/logs/job_event.h"
#include "agent/process/process.h"

namespace ddprun::agent {

class EventLog {
 public:
  using Print = std::function<void(const std::string&)>;

  // `destination`: "null" (or empty), "console", "file:PATH". A file is opened here and now, appended to, and its line
  // is one write, so that several agents may share it. `console` prints events and this log's own complaint.
  // Throws UsageError where the file cannot be had, or the destination is none of these.
  EventLog(const std::string& destination, Print console);
  // Never throws, never waits for a reader. The first event that cannot be written is told in one sentence.
  void write(const JobEvent& event);
  // False: nothing is written anyway, so that an event need not be made.
  bool on() const { return to_console_ || file_; }

 private:
  void complain(const std::string& why);

  std::string path_;
  Print console_;
  bool to_console_ = false;
  bool complained_ = false;
  bool torn_ = false;
  Fd file_;
};

}  // namespace ddprun::agent
