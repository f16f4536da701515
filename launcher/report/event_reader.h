// Reads the lines of an event log (docs/events.md). Pure: text in, values out.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/time.h"

namespace ddprun::launcher {

struct LoggedEvent {
  std::chrono::milliseconds at{};  // since 1970
  bool of_worker = false;
  std::string run_id = {}, state = {}, error = {};
  int round = 0;  // 0: before the first
  std::optional<int> group_rank = {};
  std::optional<int> rank = {}, role_world_size = {};  // a worker's
  int nodes = 0;
  std::optional<Duration> duration = {};
  std::map<std::string, std::string> more = {};  // its other fields that are strings

  // In milliseconds; zero if there is no such field.
  Duration time(const std::string& field) const;
  std::optional<std::uint64_t> number(const std::string& field) const;
  std::optional<double> real(const std::string& field) const;
};

struct EventFile {
  std::vector<LoggedEvent> events;    // in the order of their times
  std::vector<std::string> problems;  // a sentence each, with the line's number; ten at most
  bool torn = false;                  // the last line is not complete, and is left out
};
EventFile read_events(std::string_view text);

}  // namespace ddprun::launcher
