// Opens a worker's stdout and stderr, as stream_plan.h decides.
#pragma once
#include <filesystem>

#include "agent/logs/log_layout.h"
#include "agent/logs/log_options.h"
#include "agent/logs/log_pipe.h"
#include "agent/logs/stream_plan.h"

namespace ddprun::agent {

class WorkerStreams {
 public:
  // `layout` and `pipes` must outlive it.
  WorkerStreams(LogOptions options, LogLayout& layout, LogPipes& pipes);

  struct Streams {
    Fd out = {}, err = {};                               // empty: our own; close them once the worker has them
    std::filesystem::path folder = {}, error_file = {};  // empty: none
    std::filesystem::path stderr_log = {};
  };
  // `alone`: no other worker writes to the console. Throws Error if no pipe can be opened. A folder or file that cannot
  // be created causes one warning: the worker's output then goes to the console.
  Streams open(const WorkerPlace& worker, bool alone);
  // The same for a worker that stays and has its streams: they go over to its new place. Before any open() of that
  // round. Its log files stay where they are, and are not in the result.
  Streams go_on(const WorkerPlace& from, const WorkerPlace& to);

 private:
  struct Wanted {
    StreamBits stream;
    std::filesystem::path round_folder, folder;
    bool alone;
  };
  Streams place(const WorkerPlace& worker);
  LinePrefix prefix_of(const WorkerPlace& worker) const;
  Fd open_stream(const WorkerPlace& worker, Wanted wanted, std::filesystem::path& log);
  LogStream through_us(const WorkerPlace& worker, const Wanted& wanted, const StreamPlan& plan) const;

  LogOptions options_;
  LogLayout& layout_;
  LogPipes& pipes_;
};

}  // namespace ddprun::agent
