// The timers that workers have set in torchrun's file-timer protocol.
//
// A value, not a service: it owns no clock and no pipe. Expiry times are wall-clock times, as in the protocol.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::agent {

using WallTime = std::chrono::system_clock::time_point;

struct TimerRequest {
  pid_t pid = 0;
  std::string scope = {};
  std::optional<WallTime> expires = {};  // empty: the timer is released
  int signal = 0;                        // to the process at expiry; 0 or less: none
};

// One line of the pipe: {"version": 1, "pid": 123, "scope_id": "step", "expiration_time": 1700000000.5, "signal": 9};
// or why it is invalid.
using TimerLine = std::variant<TimerRequest, std::string>;
TimerLine parse_timer_line(const std::string& line);

struct ExpiredTimer {
  pid_t pid = 0;
  std::string scope = {};
  WallTime expires = {};
  std::chrono::nanoseconds granted = {};  // from the request to the expiry
  int signal = 0;
};

class TimerTable {
 public:
  static constexpr std::size_t kTimersMax = 65'536;  // a worker must not fill our memory
  // False: the table is full, and the request is dropped.
  bool apply(const TimerRequest& request, WallTime now);
  // The earliest expiry; nothing is polled.
  std::optional<WallTime> next_expiry() const;
  // For each process with expired timers, the first one that asks for a signal, else the first of all. All timers of
  // these processes are forgotten: the process is about to end, or no signal is requested.
  std::vector<ExpiredTimer> expire(WallTime now);
  // The process has ended.
  void forget(pid_t pid);

 private:
  struct Timer {
    WallTime set, expires;
    int signal;
  };
  std::map<std::pair<pid_t, std::string>, Timer> timers_;
};

}  // namespace ddprun::agent
