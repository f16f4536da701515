// Writes a job's events, one line each, to the console or to a file, or discards them.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "agent/logs/job_event.h"
#include "agent/process/files/file_thread.h"

namespace ddprun::agent {

class EventLog {
 public:
  using Print = std::function<void(const std::string&)>;

  // `destination`: "null" (or empty), "console", "file:PATH". The constructor opens the file to append; a line is one
  // write, by `files`, so that several agents may share it. `console` prints events. Both must outlive it.
  // Throws UsageError if the file cannot be opened, or the destination is none of these.
  EventLog(const std::string& destination, Print console, FileThread& files);
  // Never throws, never waits. The first event that cannot be written causes one warning.
  void write(const JobEvent& event);
  // False: nothing is written, so the caller need not build events.
  bool on() const { return to_console_ || file_; }

 private:
  struct File;  // shared with the thread

  Print console_;
  FileThread& files_;
  bool to_console_ = false;
  std::shared_ptr<File> file_;
};

}  // namespace ddprun::agent
