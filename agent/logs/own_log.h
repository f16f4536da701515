// ddprun's own log of what it does, enabled by -v or LOGLEVEL. Silent otherwise.
//
// info: a job's life, a line per event (rounds, workers with their pids, stops, restarts). debug: every event and
// action of the supervisor, ticks included. A line reads "2026-11-21 11:16:11.123 ddprun info: worker-started ...".
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::agent {

enum class LogLevel { debug, info, warning };

// Parses LOGLEVEL as Python does: a name in any case (DEBUG, INFO, WARNING, WARN, ERROR, CRITICAL, FATAL, NOTSET) or a
// number (10 is DEBUG, 20 INFO). Empty: no such level. Levels above WARNING count as WARNING: a job's failure is always
// printed.
std::optional<LogLevel> log_level_of(std::string_view loglevel);

// -v means at least info; an empty or unknown LOGLEVEL has no effect.
LogLevel log_level(std::string_view loglevel, bool verbose);

class OwnLog {
 public:
  // `print` takes whole lines; it is called in the thread that logs.
  OwnLog(LogLevel level, std::function<void(const std::string&)> print);
  ~OwnLog();
  bool at(LogLevel level) const { return level >= level_; }
  void write(LogLevel level, const std::string& text);

 private:
  struct Logger;  // keeps spdlog out of our includers
  LogLevel level_;
  std::unique_ptr<Logger> logger_;  // empty: the level is warning
};

}  // namespace ddprun::agent
