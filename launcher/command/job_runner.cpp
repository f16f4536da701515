#include "launcher/command/job_runner.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "agent/process/exit_status.h"
#include "agent/process/process_table.h"
#include "agent/process/worker_env.h"
#include "launcher/config/exit_codes.h"
#include "launcher/jobs/ended_job.h"
#include "launcher/jobs/event_tail.h"
#include "launcher/jobs/job_process.h"
#include "launcher/jobs/output_copy.h"
#include "launcher/jobs/record_writer.h"
#include "launcher/jobs/recorded_status.h"
#include "launcher/jobs/snapshot_copier.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/peer/token.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::milliseconds kLookEvery{250};
constexpr std::chrono::seconds kTryAgain{2};      // a record that could not be written
constexpr std::chrono::seconds kOutputLimit{10};  // for the rest of the output once ddprun has ended
constexpr std::chrono::seconds kSayLate{10};      // that the last copy goes on
constexpr std::chrono::milliseconds kFilesEvery{5};
constexpr std::chrono::minutes kRecordLimit{1}, kHandOverLimit{60};  // at the end: a log may be large
constexpr int kForwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

std::string host_of_record() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

void say(const std::string& sentence) { print_line(stderr, "ddprun run: " + sentence); }

Fd forwarded_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kForwarded) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals, signal);  // nohup
  }
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return Fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

// For the job's commands, as for its workers.
std::vector<std::string> without_token(agent::Environment environment) {
  environment.erase(rendezvous::kTokenVariable);
  return agent::merged(environment, {});
}

// Only the process that we have started needs it.
void wipe_tokens(std::vector<std::string>& variables, agent::Environment& environment) {
  for (std::string& variable : variables)
    if (variable.starts_with(std::string(rendezvous::kTokenVariable) + "=")) rendezvous::wipe(variable);
  if (const auto token = environment.find(rendezvous::kTokenVariable); token != environment.end())
    rendezvous::wipe(token->second);
}

class JobRun {
 public:
  explicit JobRun(RunRequest request)
      : request_(std::move(request)),
        leader_(request_.node == 0),
        events_file_(request_.record.path(
            (leader_ ? "events.jsonl" : "events-" + std::to_string(request_.node) + ".jsonl").c_str())),
        end_file_(request_.record.path(("end-" + std::to_string(request_.node) + ".json").c_str())),
        status_(leader_ ? request_.record.status() : nlohmann::json(), now_in_ms()),
        events_(events_file_),
        copier_(io_, leader_ ? request_.job.snapshot : SnapshotCopy{}, without_token(request_.environment)),
        writer_(request_.record, say),
        signals_(io_, forwarded_signals().release()),
        timer_(io_) {}

  int run() {
    enter_source_dir();
    take_signals();
    if (leader_) writer_.write_first(content());
    if (copier_.wants_fetch())
      copier_.fetch([this](const std::string& problem) { fetched(problem); });
    else
      start();
    while (!run_handlers()) continue;
    return exit_code_;
  }

 private:
  // False: they are to go on. An error of ours, such as a lack of memory, ends no job that runs.
  bool run_handlers() try {
    io_.run();
    return true;
  } catch (const std::exception& error) {
    if (!process_ && !has_ended_) throw;
    if (const std::string why = error.what(); told_error_ != why) say("the job goes on after an error: " + why);
    told_error_ = error.what();
    return has_ended_;
  }

  // Commands and workers run there.
  void enter_source_dir() {
    if (chdir(request_.job.source_dir.c_str()) != 0)
      throw UsageError("cannot run the job in " + request_.job.source_dir, std::strerror(errno),
                       "source_dir in its file names the folder of the program.");
    if (request_.job.output_path.empty() || !leader_) return;
    std::error_code failed;
    fs::create_directories(request_.job.output_path, failed);
    if (failed)
      throw UsageError("cannot write to " + request_.job.output_path, failed.message(),
                       "output_path in the job's file names a folder.");
  }

  void fetched(const std::string& problem) {
    if (exit_code_ != 0) return await_files();  // a signal ended the command
    if (problem.empty()) return start();
    exit_code_ = kRendezvousImpossible;
    const std::string sentence = "the snapshot was not fetched: the command " + problem +
                                 ". If there is none yet, let the command exit with 0, or pass --set snapshot.fetch=.";
    say(sentence);
    status_.on_end(exit_code_, {{"message", sentence}}, now_in_ms());
    write_record();
    await_files();
  }

  void start() {
    std::error_code ignored;
    fs::remove(end_file_, ignored);
    request_.environment["DDPRUN_END_FILE"] = end_file_;
    request_.environment[kHasRecordVariable] = "1";
    std::vector<std::string> variables = agent::merged(request_.environment, {});
    std::vector<std::string> argv{"ddprun", "--config", request_.record.path("ddprun.toml"), "--event-log-handler",
                                  "file:" + events_file_.string()};
    if (!request_.token_file.empty()) argv.insert(argv.end(), {"--token-file", request_.token_file});
    Fd out, err;
    std::shared_ptr<JobLog> log;
    if (request_.keeps_log) log = std::make_shared<JobLog>(request_.record.path("log"), say);
    Fd out_end = log ? pipe_into(out) : Fd(), err_end = log ? pipe_into(err) : Fd();
    if (log) {  // first, as they may be refused
      copies_.emplace_back(std::move(out), STDOUT_FILENO, log);
      copies_.emplace_back(std::move(err), STDERR_FILENO, log);
    }
    process_ = start_job_process(request_.ddprun, argv, variables, log ? out_end.get() : 1, log ? err_end.get() : 2);
    wipe_tokens(variables, request_.environment);
    out_end.reset();
    err_end.reset();
    process_fd_.emplace(io_, process_->fd.release());
    process_fd_->async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
      if (!error) ended();
    });
    look();
  }

  static Fd pipe_into(Fd& reader) {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error("cannot keep the job's output", std::strerror(errno));
    reader = Fd(ends[0]);
    return Fd(ends[1]);
  }

  void look() {
    if (has_ended_) return;
    after(kLookEvery, [this] { look(); });
    const auto now = Clock::now();
    const bool tries_again = now >= try_again_ && writer_.fails();
    if (tries_again) try_again_ = now + kTryAgain;
    if (read_events() || tries_again) write_record();
    copier_.store_if_due(now, [this](const std::string& problem) { stored(problem); });
  }

  bool read_events() {
    return events_.read([this](const nlohmann::json& event) { status_.on_event(event); });
  }

  template <class Then>
  void after(Duration time, Then then) {
    timer_.expires_after(time);
    timer_.async_wait([then](const asio::error_code& error) {
      if (!error) then();
    });
  }

  void stored(const std::string& problem) {
    if (!problem.empty() && problem != told_problem_) say("the snapshot was not stored: the command " + problem + ".");
    told_problem_ = problem;
    status_.on_copy(problem.empty(), problem, now_in_ms());
    write_record();
  }

  void ended() {
    read_signals();  // they came before the job's end, and perhaps are its cause
    exit_code_ = exit_code_of(*process_);
    process_.reset();
    has_ended_ = true;
    for (OutputCopy& copy : copies_) copy.await_end(kOutputLimit);
    read_events();
    after(kSayLate, [this] {
      say("the job has ended with code " + std::to_string(exit_code_) +
          "; its snapshot is still being stored. Ctrl-C or SIGTERM ends that.");
    });
    copier_.store_last([this](const std::string& problem) {
      if (!request_.job.snapshot.store.empty()) stored(problem);
      if (!problem.empty() && exit_code_ == kSuccess && stopped_by_ == 0) exit_code_ = kUnsaved;
      finish();
    });
  }

  void finish() {
    const auto end = parse_json(agent_end());
    status_.on_end(exit_code_, end.is_discarded() ? nlohmann::json() : end, now_in_ms());
    std::error_code ignored;
    fs::remove(end_file_, ignored);
    write_record();
    if (!request_.job.output_path.empty() && leader_) writer_.hand_over(request_.job.output_path, status_.result());
    await_files();
  }

  void await_files() { await_files_since(Clock::now()); }

  void await_files_since(TimePoint begin) {
    const Duration waited = Clock::now() - begin;
    const bool record_is_late = waited > kRecordLimit && !writer_.record_is_done();
    if (writer_.all_is_done() || record_is_late || waited > kHandOverLimit || stopped_by_ != 0) return io_.stop();
    after(kFilesEvery, [this, begin] { await_files_since(begin); });
  }

  std::string agent_end() const { return request_.record.read_text(end_file_.filename().c_str()); }

  void write_record() {
    if (leader_) writer_.write(content());
  }

  RecordContent content() const {
    nlohmann::json status = status_.to_json(now_in_ms());
    status["name"] = request_.job.name;
    status["host"] = host_of_record();
    status["pid"] = getpid();
    const auto self = agent::task_stat(getpid());
    status["pid_start"] = self ? self->start_time : 0;
    return {std::move(status), status_.result()};
  }

  void take_signals() {
    signals_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
      if (error) return;
      take_signals();
      read_signals();
    });
  }

  void read_signals() {
    signalfd_siginfo signal{};
    while (::read(signals_.native_handle(), &signal, sizeof signal) == sizeof signal) on_signal(signal);
  }

  // Those of a terminal's key reach ddprun, too, as it is in the same process group.
  void on_signal(const signalfd_siginfo& signal) {
    const int number = static_cast<int>(signal.ssi_signo);
    if (process_) {
      if (signal.ssi_code != SI_KERNEL) ::kill(process_->pid, number);
      return;
    }
    if (has_ended_ && (number == SIGINT || number == SIGTERM)) return stop_copies(number);
    if (has_ended_ || exit_code_ != 0 || number == SIGUSR1 || number == SIGUSR2) return;
    exit_code_ = number == SIGTERM ? static_cast<int>(kRequeue) : kInterrupted + number;  // nothing has begun
    status_.on_end(exit_code_, {{"message", "stopped while the snapshot was fetched."}}, now_in_ms());
    write_record();
    copier_.stop("was stopped by " + agent::signal_name(number));
  }

  // With the job's exit code: who asks for it knows.
  void stop_copies(int signal) {
    stopped_by_ = signal;
    copier_.stop("was stopped by " + agent::signal_name(signal));
  }

  RunRequest request_;
  const bool leader_;
  const fs::path events_file_, end_file_;
  asio::io_context io_;
  RecordedStatus status_;
  EventTail events_;
  SnapshotCopier copier_;
  RecordWriter writer_;
  asio::posix::stream_descriptor signals_;
  asio::steady_timer timer_;
  std::optional<JobProcess> process_;
  std::optional<asio::posix::stream_descriptor> process_fd_;
  std::vector<OutputCopy> copies_;
  TimePoint try_again_{};
  std::string told_problem_, told_error_;
  bool has_ended_ = false;
  int exit_code_ = 0, stopped_by_ = 0;
};

}  // namespace

int run_job(RunRequest request) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a record that may not grow is an error, and the job goes on
  return JobRun(std::move(request)).run();
}

int node_number(const std::map<std::string, std::string>& environment) {
  for (const char* name : {"SLURM_NODEID", "JOB_COMPLETION_INDEX"}) {
    const auto found = environment.find(name);
    int number = 0;
    if (found == environment.end()) continue;
    const std::string& text = found->second;
    if (std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc()) return number;
  }
  return 0;
}

}  // namespace ddprun::launcher
