#include "agent/logs/event_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/process/process.h"
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

struct EventLog::File {
  explicit File(const std::string& place) : path(place), fd(open_file(place)) {}

  std::string write(std::string line) {
    if (std::exchange(torn, false)) line.insert(0, "\n");  // ends a line that was written only in part
    ssize_t written = 0;
    do written = ::write(fd.get(), line.data(), line.size());
    while (written < 0 && errno == EINTR);
    if (written < 0) return complaint(errno == EAGAIN ? "its reader is too slow" : std::strerror(errno));
    torn = static_cast<std::size_t>(written) < line.size();
    return torn ? complaint("there was no room for a whole line") : "";
  }
  std::string complaint(const std::string& why) const {
    return "an event could not be written to " + path + ": " + why + ". The job goes on; events may be missing";
  }

  const std::string path;
  const Fd fd;
  bool torn = false;
};

EventLog::EventLog(const std::string& destination, Print console, FileThread& files)
    : console_(std::move(console)), files_(files) {
  if (destination.empty() || destination == "null") return;
  if (destination == "console") {
    to_console_ = true;
  } else if (destination.starts_with(kFile)) {
    file_ = std::make_shared<File>(destination.substr(kFile.size()));
  } else {
    throw UsageError("--event-log-handler is '" + destination + "'", "there is no such handler",
                     "Pass null, console or file:PATH.");
  }
}

void EventLog::write(const JobEvent& event) {
  if (!on()) return;
  std::string line = event_line(event);
  if (to_console_) return console_(line);
  const std::size_t bytes = line.size();
  files_.post("the event log " + file_->path, bytes,
              [file = file_, line = std::move(line)]() mutable { return file->write(std::move(line)); });
}

}  // namespace ddprun::agent
