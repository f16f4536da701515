// Opens a worker's stdout and stderr, as stream_plan.h decides.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "agent/logs/log_layout.h"
#include "agent/logs/log_options.h"
#include "agent/logs/log_pipe.h"
#include "agent/logs/round_files.h"
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
  // Makes the folder of error files, where there are no logs. One that cannot be made causes a warning.
  void make_error_folder();
  std::filesystem::path record_folder() { return layout_.record_folder(); }
  // Before a round that has these workers, of which those that stay have their streams: makes their files, then calls
  // `ready`, now or later.
  void prepare(asio::io_context& io, const std::vector<WorkerPlace>& workers, const std::set<int>& staying,
               const std::function<void()>& ready);
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
    MadeFiles* made;
  };
  WantedFiles wanted_files(const WorkerPlace& worker) const;
  Streams place(const WorkerPlace& worker, MadeFiles& made);
  std::function<void(std::string_view bytes)> tap_of(const WorkerPlace& worker) const;
  KeptOutput::Stream source_of(const WorkerPlace& worker, StreamBits stream, const std::filesystem::path& log) const;
  LinePrefix prefix_of(const WorkerPlace& worker) const;
  Fd open_stream(const WorkerPlace& worker, Wanted wanted, std::filesystem::path& log);
  LogStream through_us(const WorkerPlace& worker, const Wanted& wanted, const StreamPlan& plan) const;

  LogOptions options_;
  LogLayout& layout_;
  LogPipes& pipes_;
  std::unique_ptr<RoundFiles> files_;  // if logs are kept
};

}  // namespace ddprun::agent
