// What `ddprun log --rank` asks the agent of that rank, as a line: "log " and a JSON object, and the answer to it: a
// line with a JSON object, and behind it the bytes of its parts. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

constexpr const char* kAskLog = "log ";

struct FilePosition {
  std::uint64_t file = 0;    // its inode
  std::uint64_t offset = 0;  // of what has not been read

  friend bool operator==(const FilePosition&, const FilePosition&) = default;
};
// How much of a rank's output has been read.
struct LogPosition {
  std::string agent = {};  // which says it; empty: nothing has been read
  int local_rank = 0;
  std::uint64_t kept = 0;                          // of what the agent has kept of it
  std::optional<FilePosition> out = {}, err = {};  // of the files that the worker writes itself

  friend bool operator==(const LogPosition&, const LogPosition&) = default;
};

struct LogRequest {
  int rank = 0;
  bool waits = false;     // for a moment, if there is nothing new
  LogPosition from = {};  // empty: the last 1 MiB
};
std::string log_line(const LogRequest& request);
// Empty: it is none.
std::optional<LogRequest> parse_log_request(const std::string& line);

struct LogPart {
  std::string stream = {};  // "stdout", "stderr"; empty: both, as they came
  std::string bytes = {};
  std::uint64_t left_out = 0;  // bytes before these that are gone
};
struct LogAnswer {
  std::string problem = {};  // a sentence: why there is nothing to read; it may be over soon if `passes`
  bool passes = false;
  std::string host = {};
  int round = 0;
  bool more = false;  // there is: ask again
  LogPosition next = {};
  std::vector<LogPart> parts = {};
};
std::string to_text(const LogAnswer& answer);
// Empty: it is none.
std::optional<LogAnswer> parse_log_answer(const std::string& text);

}  // namespace ddprun::agent
