// All that people and programs are told of the job by this node: lines, the report at the end, events, our own log, and
// the files in which some of it is kept.
//
// For the thread of the io_context, except say().
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "agent/logs/event_log.h"
#include "agent/logs/log_layout.h"
#include "agent/logs/log_pipe.h"
#include "agent/logs/own_log.h"
#include "agent/process/files/file_thread.h"
#include "agent/tell/failures.h"
#include "agent/tell/job_ending.h"
#include "agent/tell/job_events.h"
#include "agent/tell/job_state.h"
#include "agent/tell/reporter.h"
#include "agent/tell/worker_files.h"

namespace ddprun::agent {

class Tell {
 public:
  struct Options {
    ReporterOptions reporter = {};
    EventJob job = {};
    LogLevel log_level = LogLevel::warning;
    std::string event_log = "null";  // event_log.h
    JobState::Files state = {};
    std::optional<int> preempt_exit_code = {};
    std::vector<rendezvous::FailureRule> rules = {};
    bool alone = true;       // the job has one node
    bool tells_page = true;  // else another node says where its own page is, and this one where places are shown
  };
  // All must outlive it; `coordination` is called later. Throws Error if the event log cannot be opened.
  Tell(asio::io_context& io, LogPipes& pipes, const LogLayout& layout, const WorkerGroup& workers, Options options,
       std::function<Coordination&()> coordination);

  // A sentence without its end.
  void say(const std::string& sentence) const { pipes_.print("ddprun: " + sentence + ".\n"); }
  template <class What>  // Event or Action
  void log(LogLevel level, const char* kind, const What& what) {
    if (log_.at(level)) log_.write(level, kind + (" " + to_string(what)));
  }
  void log(const std::string& line) { log_.write(LogLevel::info, line); }
  // The user wants to know where things are.
  bool shows_places() const;
  // A page is asked for to be looked at; of several nodes one says where.
  void http_is_at(bool page, bool https, const std::string& address, std::uint16_t port);

  // What goes to people and into the event log.
  void pace_changed(const rendezvous::ReportPace& report);
  void act_carried_out(const rendezvous::ReportAct& report);
  void timer_expired(int local_rank, const ExpiredTimer& timer);
  void round_ended(const rendezvous::EndRound& end, const std::optional<rendezvous::RoundSpent>& spent);
  void keep_stacks(const std::vector<int>& local_ranks, const std::vector<ProcessStacks>& stacks);

  // Empty: the ledger is kept nowhere. Else from any thread.
  std::function<void(const rendezvous::LedgerRecord&, const rendezvous::Outcome*)> ledger_hook();
  // Waits for a moment; true: all files are written.
  bool files_written(Duration most) { return files_.drain(most); }
  // At the end. True: something was said of files.
  bool give_up_files() { return files_.give_up(), files_were_told_; }

  Reporter& reporter() { return reporter_; }
  const Reporter& reporter() const { return reporter_; }
  JobEvents& events() { return events_; }
  Failures& failures() { return failures_; }
  JobEnding& ending() { return ending_; }

 private:
  LogPipes& pipes_;
  const LogLayout& layout_;
  const WorkerGroup& workers_;
  const JobState::Files state_files_;
  const bool alone_, tells_page_;
  OwnLog log_;
  std::atomic<bool> files_were_told_ = false;
  FileThread files_;
  WorkerFiles worker_files_;
  EventLog event_log_;
  Reporter reporter_;
  JobEvents events_;
  std::optional<JobState> state_;
  Failures failures_;
  JobEnding ending_;
};

}  // namespace ddprun::agent
