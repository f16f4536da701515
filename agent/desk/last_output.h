// Completes a node's report with the last lines of its workers' output, which it looks for when somebody asks, and then
// alone.
//
// For the thread of the io_context; hooks are called there. Files are read in a thread of their own: where a file
// system does not answer, the report goes without their lines.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/desk/last_lines.h"
#include "agent/process/files/file_thread.h"
#include "rendezvous/coordination/inquiry/job_view.h"

namespace ddprun::agent {

struct FileOutput {
  bool is_stdout = true;
  FileEnd end = {};
};
// In the files that these processes write, each with what a shell or wrapper has started.
std::map<pid_t, std::vector<FileOutput>> read_output(const std::vector<pid_t>& workers);

class LastOutput {
 public:
  // Of the streams that pass through us; empty: this process is no longer that rank's.
  using Passed = std::function<std::optional<std::vector<OutputEnd>>(int round, const rendezvous::RankView& rank)>;
  using Read = std::function<std::map<pid_t, std::vector<FileOutput>>(const std::vector<pid_t>& workers)>;
  using Take = std::function<void(rendezvous::NodeReport)>;
  static constexpr std::chrono::milliseconds kReadLimit{500};  // of the 2 s in which a node has to answer

  LastOutput(asio::io_context& io, Passed passed, Read read = read_output);
  ~LastOutput();
  LastOutput(const LastOutput&) = delete;
  LastOutput& operator=(const LastOutput&) = delete;

  // Calls `take` now, if no worker runs, or within kReadLimit.
  void add_to(rendezvous::NodeReport report, Take take);

 private:
  struct Answer;
  struct Request {
    rendezvous::NodeReport report;
    Take take;
    std::shared_ptr<Answer> answer;
    std::unique_ptr<asio::steady_timer> timer;
  };
  bool begin_reading(int serial, const Request& request);
  void finish(int serial);
  std::vector<WorkerOutput> output_of(const rendezvous::NodeReport& report,
                                      const std::map<pid_t, std::vector<FileOutput>>& files) const;

  asio::io_context& io_;
  const Passed passed_;
  const Read read_;
  const TimePoint started_ = Clock::now();
  std::optional<FileThread> thread_;  // from the first request on
  std::map<int, Request> requests_;
  std::shared_ptr<Answer> last_answer_;
  int last_ = 0;
};

}  // namespace ddprun::agent
