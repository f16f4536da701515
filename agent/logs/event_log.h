// Writes a job's events, one line each, to the console or to a file, or discards them.
#pragma once
#include <functional>
#include <string>

#include "agent/logs/job_event.h"
#include "agent/process/process.h"

namespace ddprun::agent {

class EventLog {
 public:
  using Print = std::function<void(const std::string&)>;

  // `destination`: "null" (or empty), "console", "file:PATH". The constructor opens the file to append; a line is one
  // write, so that several agents may share it. `console` prints events and this log's own warning.
  // Throws UsageError if the file cannot be opened, or the destination is none of these.
  EventLog(const std::string& destination, Print console);
  // Never throws, never waits for a reader. The first event that cannot be written causes one warning.
  void write(const JobEvent& event);
  // False: nothing is written, so the caller need not build events.
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
