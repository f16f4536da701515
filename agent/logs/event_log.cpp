#include "agent/logs/event_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "rendezvous/base/error.h"

namespace ddprun::agent {
namespace {

constexpr std::string_view kFile = "file:";

// O_NONBLOCK: a pipe or device without a reader must not block the agent.
Fd open_file(const std::string& path) {
  if (path.empty())
    throw UsageError("--event-log-handler is 'file:'", "no file is named", "Pass --event-log-handler file:PATH.");
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666));
  if (file) return file;
  const std::string why = errno == ENXIO ? "this pipe has no reader" : std::strerror(errno);
  throw UsageError("cannot open the event log " + path, why, "Pass another file to --event-log-handler.");
}

}  // namespace

EventLog::EventLog(const std::string& destination, Print console) : console_(std::move(console)) {
  if (destination.empty() || destination == "null") return;
  if (destination == "console") {
    to_console_ = true;
  } else if (destination.starts_with(kFile)) {
    path_ = destination.substr(kFile.size());
    file_ = open_file(path_);
  } else {
    throw UsageError("--event-log-handler is '" + destination + "'", "there is no such handler",
                     "Pass null, console or file:PATH.");
  }
}

void EventLog::write(const JobEvent& event) {
  if (!on()) return;
  std::string line = event_line(event);
  if (to_console_) return console_(line);
  if (std::exchange(torn_, false)) line.insert(0, "\n");  // ends a line that was written only in part
  ssize_t written = 0;
  do written = ::write(file_.get(), line.data(), line.size());
  while (written < 0 && errno == EINTR);
  if (written < 0) return complain(errno == EAGAIN ? "its reader is too slow" : std::strerror(errno));
  torn_ = static_cast<std::size_t>(written) < line.size();
  if (torn_) complain("there was no room for a whole line");
}

void EventLog::complain(const std::string& why) {
  if (std::exchange(complained_, true)) return;
  console_("ddprun: an event could not be written to " + path_ + ": " + why +
           ". The job goes on; events may be missing.\n");
}

}  // namespace ddprun::agent
