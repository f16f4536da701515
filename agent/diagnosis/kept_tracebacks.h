// Keeps the tracebacks with which workers ended off the console until the job's report has quoted them or not.
//
// Belongs to the log thread's loop; any thread may call lines_of().
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

class KeptTracebacks {
 public:
  using Key = std::pair<int, int>;                            // round, rank
  using Show = std::function<void(const std::string& text)>;  // prints it on the worker's console

  using Say = std::function<void(const std::string& line)>;  // a line of ddprun's own

  KeptTracebacks(asio::io_context& io, Say say) : say_(std::move(say)), timer_(io) {}
  // All are shown at the latest 15 s after the first one came: then the job goes on.
  void keep(Key key, std::string text, Show show, TimePoint now);
  // Shows all except those that this report quotes, equal ones once, and forgets them.
  void show_unless_quoted(const std::string& report);
  // Empty if there is none, or if it is too long for a report; of a fatal error with many threads the current one's.
  std::vector<std::string> lines_of(Key key) const;

 private:
  struct Kept {
    std::string text;
    Show show;
  };
  Say say_;
  mutable std::mutex mutex_;
  std::map<Key, Kept> kept_;
  asio::steady_timer timer_;
};

}  // namespace ddprun::agent
