// Which handlers of an event loop wait, instead of returning to it. Asio's hooks (ASIO_CUSTOM_HANDLER_TRACKING) of the
// dev build: in a thread that is watched, a handler that waits for more than 100 ms ends the process, with its name.
// Neither its CPU time counts nor the time for which others had the CPU, so a busy machine changes nothing.
//
// In other builds nothing of this exists.
#pragma once

#ifdef ASIO_CUSTOM_HANDLER_TRACKING
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "rendezvous/base/print_line.h"

namespace ddprun {

struct HandlerTimes {
  int schedule = -1;        // schedstat of a thread that is watched
  int depth = 0;            // of handlers, or of what may wait
  const char* name = "";    // of the outermost handler
  long long waited_at = 0;  // nanoseconds of waiting before it

  // Of this thread so far. The kernel's counters: CPU time, and time spent waiting for a CPU.
  long long waited() const {
    char text[64] = {};
    long long cpu = 0, queued = 0;
    const bool read = pread(schedule, text, sizeof text - 1, 0) > 0 && sscanf(text, "%lld %lld", &cpu, &queued) == 2;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return read ? std::chrono::nanoseconds(now).count() - cpu - queued : 0;
  }
  void begin(const char* function) {
    if (schedule < 0 || depth++ > 0) return;
    name = function;
    waited_at = waited();
  }
  void end() {
    if (schedule < 0 || --depth > 0) return;
    const long long ms = (waited() - waited_at) / 1'000'000;
    if (ms < 100) return;
    print_line(stderr, "ddprun: internal error: a handler of the loop has waited for " + std::to_string(ms) +
                           " ms: " + name + ". Please report this.");
    std::abort();
  }
};
inline thread_local HandlerTimes handler_times;

struct HandlerTime {
  explicit HandlerTime(const char* function) { handler_times.begin(function); }
  ~HandlerTime() { handler_times.end(); }
};

inline void watch_handlers_of_this_thread() {
  handler_times.schedule = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

// Within a handler: what it waits for in this scope is known, and bounded.
class MayWait {
 public:
  MayWait() : before_(handler_times.schedule < 0 ? 0 : handler_times.waited()) {}
  ~MayWait() {
    if (handler_times.schedule >= 0) handler_times.waited_at += handler_times.waited() - before_;
  }

 private:
  const long long before_;
};

}  // namespace ddprun

#define ASIO_INHERIT_TRACKED_HANDLER
#define ASIO_ALSO_INHERIT_TRACKED_HANDLER
#define ASIO_HANDLER_TRACKING_INIT (void)0
#define ASIO_HANDLER_LOCATION(where) (void)0
#define ASIO_HANDLER_CREATION(what) (void)0
#define ASIO_HANDLER_COMPLETION(what) (void)0
#define ASIO_HANDLER_INVOCATION_BEGIN(what) const ::ddprun::HandlerTime ddprun_handler_time(__PRETTY_FUNCTION__)
#define ASIO_HANDLER_INVOCATION_END (void)0
#define ASIO_HANDLER_OPERATION(what) (void)0
#define ASIO_HANDLER_REACTOR_REGISTRATION(what) (void)0
#define ASIO_HANDLER_REACTOR_DEREGISTRATION(what) (void)0
#define ASIO_HANDLER_REACTOR_READ_EVENT 0
#define ASIO_HANDLER_REACTOR_WRITE_EVENT 0
#define ASIO_HANDLER_REACTOR_ERROR_EVENT 0
#define ASIO_HANDLER_REACTOR_EVENTS(what) (void)0
#define ASIO_HANDLER_REACTOR_OPERATION(what) (void)0

#else

namespace ddprun {
inline void watch_handlers_of_this_thread() {}
struct MayWait {
  ~MayWait() {}  // a scope is meant, not an unused value
};
}  // namespace ddprun
#endif
