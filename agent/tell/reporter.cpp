#include "agent/tell/reporter.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "agent/diagnosis/diagnosis.h"
#include "agent/diagnosis/evidence.h"
#include "agent/diagnosis/failure_report.h"
#include "agent/diagnosis/last_lines.h"
#include "agent/diagnosis/script_sets.h"
#include "agent/diagnosis/traceback_hold.h"
#include "agent/hang/worker_watch.h"
#include "agent/process/exit_status.h"
#include "agent/process/files/regular_file.h"
#include "agent/process/process_state.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/coordination/round/ledger.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kReasonMax = 160;                   // bytes of a worker's last line
constexpr std::chrono::milliseconds kFileTimeSlack{100};  // files get their time from a coarser clock

// Whole seconds, rounded up: never less than the time left.
std::string seconds(Duration time) { return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count()); }

// As the user gave it: 90, 1.5.
std::string exact_seconds(Duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", std::chrono::duration<double>(time).count());
  std::string out = text;
  out.erase(out.find_last_not_of('0') + 1);
  return out.ends_with('.') ? out.substr(0, out.size() - 1) : out;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

// The innermost functions, up to main; or why there are none.
std::string main_thread_in_words(const ProcessStacks& stacks) {
  constexpr std::size_t kShown = 8;
  if (stacks.threads.empty()) return {};
  const ThreadStack& thread = stacks.threads.front();
  if (thread.frames.empty()) return thread.missing.empty() ? "" : "its main thread has no stack: " + thread.missing;
  std::string out;
  for (std::size_t i = 0; i < std::min(thread.frames.size(), kShown); ++i) {
    const std::string& function = thread.frames[i].function;
    out += (i ? ", " : "") + (function.empty() ? std::string("?") : function);
    if (function == "main") break;
  }
  return "its main thread, innermost first: " + out;
}

// Looks at folders of PATH, and of environments: asked only if a module is missing, once the job has failed.
PythonHere python_here(const std::string& program) {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value ? value : "");
  };
  const std::string path = variable("PATH");
  const PythonFiles files = python_files();
  PythonHere out{python_of(program, look_at_program(program).head, path, files)};
  std::vector<std::string> folders;
  for (const char* environment : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string prefix = variable(environment); !prefix.empty()) folders.push_back(prefix + "/bin");
  for (std::string& folder : folders_of(path)) folders.push_back(std::move(folder));
  std::error_code unknown;
  folders.push_back((std::filesystem::current_path(unknown) / ".venv/bin").string());
  out.other_with = [ran = out.ran, folders, files](const std::string& module) {
    return python_with(module, folders, ran, files);
  };
  return out;
}

std::string url_of(bool https, const std::string& address, std::uint16_t port) {
  const std::string host = address.find(':') == std::string::npos ? address : "[" + address + "]";
  return (https ? "https://" : "http://") + host + ":" + std::to_string(port);
}

bool is_own_address(const std::string& address) { return address.starts_with("127.") || address == "::1"; }
bool is_any_address(const std::string& address) { return address == "0.0.0.0" || address == "::"; }

}  // namespace

std::string page_place(bool https, const std::string& address, std::uint16_t port, const std::string& host,
                       bool sits_elsewhere) {
  if (is_any_address(address)) return url_of(https, host, port) + "/";
  const bool is_here = address == "127.0.0.1" && !https;  // people know it by another name
  const std::string url = url_of(https, is_here ? "localhost" : address, port) + "/";
  if (!sits_elsewhere || !is_own_address(address)) return url;
  const std::string to = url_of(false, is_here ? "localhost" : address, port).substr(std::strlen("http://"));
  return url + " on " + host + "; from elsewhere: ssh -L " + std::to_string(port) + ":" + to + " " + host;
}

Reporter::Reporter(LogPipes& pipes, const LogLayout& layout, const WorkerGroup& workers, FileThread& files,
                   WorkerFiles& worker_files, ReporterOptions options)
    : pipes_(pipes),
      layout_(layout),
      workers_(workers),
      files_(files),
      worker_files_(worker_files),
      options_(std::move(options)) {}

void Reporter::logs_are_in(const std::filesystem::path& folder) {
  if (!folder.empty()) pipes_.print("ddprun: the workers' logs are in " + folder.string() + "\n");
}

void Reporter::metrics_are_at(bool https, const std::string& address, std::uint16_t port) {
  pipes_.print("ddprun: metrics are at " + url_of(https, address, port) + "/metrics\n");
}

void Reporter::page_is_at(bool https, const std::string& address, std::uint16_t port, bool sits_elsewhere) {
  pipes_.print("ddprun: page: " + page_place(https, address, port, options_.host, sits_elsewhere) + "\n");
}

void Reporter::error_files_are_in(const std::filesystem::path& folder) {
  if (!folder.empty()) pipes_.print("ddprun: the workers' error files are in " + folder.string() + "\n");
}

void Reporter::not_bound(const std::vector<Binding>& bindings) {
  std::set<std::string> printed;
  for (std::size_t local_rank = 0; local_rank < bindings.size(); ++local_rank)
    if (const std::string& why = bindings[local_rank].why_not; !why.empty() && printed.insert(why).second)
      pipes_.print("ddprun: --numa-binding does not bind local rank " + std::to_string(local_rank) + ": " + why + "\n");
}

void Reporter::no_cgroup() {
  pipes_.print("ddprun: cannot create a control group here (--cgroup); what the workers start is still ended.\n");
}

void Reporter::no_snapshot_memory(const std::string& why) {
  pipes_.print("ddprun: cannot keep snapshots in memory (--memory-snapshots): " + why + ".\n");
}

void Reporter::no_proc() {
  pipes_.print(
      "ddprun: /proc is not mounted here: what the workers start in sessions of their own cannot be found, and may "
      "outlive them. Mount /proc to have them ended.\n");
}

void Reporter::ended_leftovers(int processes, const std::string& run_id) {
  pipes_.print("ddprun: ended " + std::to_string(processes) + " processes that an earlier run of job " + run_id +
               " had left behind.\n");
}

void Reporter::preempted(int signal) {
  pipes_.print("ddprun: " + signal_name(signal) + ": the scheduler's notice of preemption (--preempt-signal).\n");
}

void Reporter::worker_noticed(int local_rank, int signal) {
  pipes_.print("ddprun: rank " + std::to_string(workers_.rank_of(local_rank)) + " got " + signal_name(signal) +
               ", which is taken for a notice of preemption.\n");
}

void Reporter::worker_preempted(int local_rank, int code) {
  pipes_.print("ddprun: rank " + std::to_string(workers_.rank_of(local_rank)) + " exited with code " +
               std::to_string(code) + ": it is preempted, and has saved (--preempt-exit-code).\n");
}

void Reporter::probe_noticed(const std::string& why) {
  pipes_.print("ddprun: " + why + ": this machine is being preempted (--preemption-probe).\n");
}

void Reporter::lost(const WorkerChannels::Unsaved& unsaved, std::optional<Duration> cut_after) {
  if (unsaved.steps == 0) return;
  const std::string steps = std::to_string(unsaved.steps) + (unsaved.steps == 1 ? " step is" : " steps are");
  const std::string last =
      unsaved.snapshot_step
          ? "the last snapshot holds step " + std::to_string(*unsaved.snapshot_step)
          : "no snapshot was written in this round" +
                (unsaved.first_step == 0 ? std::string()
                                         : ", which went on from step " + std::to_string(unsaved.first_step));
  const std::string asked = cut_after ? "; the requested one was not complete when the " + exact_seconds(*cut_after) +
                                            " s of --stop-grace were over"
                            : unsaved.save_requested && unsaved.snapshot_step
                                ? ", and the requested one was not written"
                                : "";
  pipes_.print("ddprun: " + steps + " lost: " + last + asked + ".\n");
}

namespace {

std::string words_of(const WorkerChannels::Unasked& unasked) {
  const std::uint64_t since =
      unasked.file_step ? unasked.step - std::min(unasked.step, *unasked.file_step) : unasked.steps_done;
  if (since == 0) return "the newest file that it wrote is of its last step, " + std::to_string(unasked.step);
  return std::to_string(since) + (since == 1 ? " step is" : " steps are") + " lost, as far as --watch saw: " +
         (unasked.file_step ? "the newest file is of step " + std::to_string(*unasked.file_step)
                            : std::string("it wrote no file in this round"));
}

}  // namespace

void Reporter::lost(const WorkerChannels::Unasked& unasked, bool asked) {
  pipes_.print("ddprun: " + words_of(unasked) + ".\n");
  if (asked)
    pipes_.print(
        "ddprun: to save before a preemption: channel.handle_signals(), and channel.request() after each step "
        "(docs/worker-channel.md).\n");
}

void Reporter::may_be_lost(const std::vector<int>& local_ranks, int code) {
  pipes_.print("ddprun: " + named(local_ranks) + " did not exit with code " + std::to_string(code) +
               " (--preempt-exit-code): steps may be lost.\n");
}

void Reporter::run_is_over(Duration allowed) {
  pipes_.print("ddprun: the job has run for " + exact_seconds(allowed) + " s, the limit of --max-run.\n");
}

void Reporter::stopping(int signal, Duration grace) {
  if (signal == SIGPIPE) return pipes_.print("ddprun: nobody reads the output any more: the job ends.\n");
  pipes_.print("ddprun: " + signal_name(signal) + ": stopping the workers; SIGKILL in " + exact_seconds(grace) +
               " s, or at the next Ctrl-C.\n");
}

void Reporter::waiting(const std::vector<int>& local_ranks, Duration left) {
  pipes_.print("ddprun: waiting for " + named(local_ranks) + " to leave; SIGKILL in " + seconds(left) + " s.\n");
}

// "rank 3", "ranks 0, 1 and 2 more"
std::string Reporter::named(const std::vector<int>& local_ranks) const {
  constexpr std::size_t kNamedMax = 8;  // a line, not a list of a thousand ranks
  std::string out = local_ranks.size() > 1 ? "ranks " : "rank ";
  for (std::size_t i = 0; i < local_ranks.size() && i < kNamedMax; ++i)
    out += (i ? ", " : "") + std::to_string(workers_.rank_of(local_ranks[i]));
  if (local_ranks.size() > kNamedMax) out += " and " + std::to_string(local_ranks.size() - kNamedMax) + " more";
  return out;
}

void Reporter::held(const std::vector<int>& local_ranks) {
  for (const int local_rank : local_ranks) {
    const pid_t pid = workers_.records().at(local_rank).pid;
    pipes_.print("ddprun: rank " + std::to_string(workers_.rank_of(local_rank)) + " (process " + std::to_string(pid) +
                 ") is still there after SIGKILL: " + survival_in_words(process_state(pid)) +
                 ". This node is in no round until it is gone.\n");
  }
}

std::string Reporter::survivors(const std::vector<int>& local_ranks) const {
  std::string out = rendezvous::name_of(rendezvous::FailureClass::unkillable) + ":";
  for (const int local_rank : local_ranks)
    out += (local_rank == local_ranks.front() ? " rank " : ", rank ") + std::to_string(workers_.rank_of(local_rank)) +
           " (process " + std::to_string(workers_.records().at(local_rank).pid) + ")";
  return out;
}

void Reporter::still_there(const std::vector<pid_t>& processes, int round) {
  if (processes.empty())  // some are left, or the sweep would have ended
    pipes_.print("ddprun: processes of round " + std::to_string(round) +
                 " are still there, and cannot be found, as /proc is not mounted.\n");
  for (const pid_t pid : processes)
    pipes_.print("ddprun: process " + std::to_string(pid) + " of round " + std::to_string(round) +
                 " is still there after SIGKILL: " + survival_in_words(process_state(pid)) + ".\n");
}

void Reporter::round_begins() {
  timers_.clear();
  noticed_.reset();
  memory_before_ = {};
}

void Reporter::workers_run() {
  memory_before_ = read_oom_counts();
  for (const auto& [local_rank, worker] : workers_.records())
    if (worker.binding_error)
      pipes_.print("ddprun: rank " + std::to_string(workers_.rank_of(local_rank)) +
                   " runs on all CPUs: the kernel refuses those of --numa-binding (" +
                   std::strerror(worker.binding_error) + ").\n");
}

void Reporter::hang_found(int local_rank, const std::string& how, const ProcessStacks& stacks) {
  pipes_.print("ddprun: rank " + std::to_string(workers_.rank_of(local_rank)) + " hangs: it " + how + ".\n");
  const std::string why = stacks.missing.empty() ? stacks.python_missing : stacks.missing;
  if (layout_.keeps_logs())
    pipes_.print("ddprun: its stacks are in " + (workers_.records().at(local_rank).folder / "stacks.txt").string() +
                 ".\n");
  else if (const std::string frames = main_thread_in_words(stacks); !frames.empty())
    pipes_.print("ddprun: " + frames + ".\n");
  if (!why.empty()) pipes_.print("ddprun: " + why + "\n");
}

void Reporter::stands_still(const StandingWorker& worker) {
  const std::string rank = "ddprun: rank " + std::to_string(workers_.rank_of(worker.local_rank));
  if (!worker.sign.empty())
    return pipes_.print(rank + " has stood still for " + seconds(*worker.patience) + " s, but " + worker.sign +
                        ": it is not ended (--hang-timeout SECONDS ends it).\n");
  pipes_.print(rank + " stands still: it " + worker.how + ". " +
               (worker.patience ? "It is ended after " + seconds(*worker.patience) + " s (--hang-timeout).\n"
                                : "It is not ended (--hang-timeout off or --watch=see).\n"));
}

void Reporter::goes_on(int local_rank, Duration stood) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(stood).count());
  pipes_.print("ddprun: rank " + std::to_string(workers_.rank_of(local_rank)) + " goes on after " + text + ".\n");
}

void Reporter::all_still(Duration stood) {
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(stood).count();
  pipes_.print("ddprun: nothing has moved for " + std::to_string(minutes) +
               " min: no rank here computes, reads or writes; ddprun stacks shows where they are.\n");
}

void Reporter::pace_changed(const rendezvous::ReportPace& report) {
  if (report.change.kind != rendezvous::PaceChange::Kind::straggler) return;
  pipes_.print("ddprun: " + in_words(report.change, report.host) + (report.then.empty() ? "" : "; " + report.then) +
               ".\n");
}

void Reporter::act_carried_out(const rendezvous::ReportAct& report) {
  using rendezvous::ActKind;
  const ActKind kind = report.act.kind;
  const bool is_told =
      kind == ActKind::restart || kind == ActKind::drain || kind == ActKind::resize || kind == ActKind::fault;
  if (!report.done || is_told) return;
  pipes_.print("ddprun: " + in_words(report.act) + " by " + visible(report.act.by) + ": " + report.text + ".\n");
}

void Reporter::output_found(const OutputRule& rule) {
  std::string conditions = rule.text;
  std::replace(conditions.begin(), conditions.end(), '\n', ',');
  output_rule_ = "the rule at " + rule.place + " is about it: " + conditions;
}

void Reporter::pattern_dropped(const std::string& whose, const std::string& pattern) {
  pipes_.print("ddprun: " + whose +
               " takes too long on the workers' lines and is no longer applied; simplify its pattern '" + pattern +
               "'.\n");
}

void Reporter::rule_too_slow(const rendezvous::FailureRule& rule, int rank) {
  pipes_.print("ddprun: the rule at " + rule.place + " takes too long on the last lines of rank " +
               std::to_string(rank) + " and was not applied; simplify its pattern '" + rule.pattern + "'.\n");
}

void Reporter::timer_expired(int local_rank, const ExpiredTimer& timer) { timers_.emplace(local_rank, timer); }

void Reporter::noticed(const rendezvous::Failure& failure) {
  noticed_ = Noticed{failure.round, Clock::now(), std::chrono::system_clock::now(), read_oom_counts()};
}

// A worker that is dying or was given up has not ended yet: use the time of detection.
Reporter::Noticed Reporter::notice_of(const rendezvous::Failure& failure) const {
  if (noticed_ && noticed_->round == failure.round) return *noticed_;
  const WorkerRecord& record = workers_.records().at(failure.local_rank);
  return {failure.round, record.ended_at, record.ended_at_wall, memory_before_};
}

// The last line of a traceback, or the first of a fatal error, which is shown only when the job has failed: other lines
// are on the console.
std::string Reporter::held_back(const rendezvous::Failure& failure) const {
  if (failure.status.code == 0) return {};
  const std::vector<std::string> lines = pipes_.last_lines(failure.round, failure.rank);
  const auto begins = [](const std::string& line) { return begins_traceback(line); };
  if (std::none_of(lines.begin(), lines.end(), begins)) return {};
  if (begins_fatal_error(lines.front())) return printable_line(lines.front(), kReasonMax);
  return printable_line(last_line_to_compare(lines), kReasonMax);
}

// Of a program without a channel nobody knows whether a restart helps: the first time it is said how to have none, to
// those who have not chosen their number.
void Reporter::restarting(const rendezvous::Failure& failure, const std::string& reason, const RoundSoFar& round) {
  const bool is_first = !std::exchange(has_restarted_, true);
  std::string next = reason;
  if (round.nothing_saved) next += "; no snapshot yet: it begins again";
  if (round.unasked) next += "; " + words_of(*round.unasked);
  const bool chosen = reason != "restart 1 of " + std::to_string(rendezvous::RestartPolicy().max_restarts);
  if (is_first && !chosen && !round.progressed) next += " (--max-restarts 0: none)";
  const TimePoint started_at = workers_.records().at(failure.local_rank).started_at;
  const std::string why = held_back(failure);
  pipes_.print("ddprun: " + headline(failure, notice_of(failure).at - started_at) + (why.empty() ? "" : ": " + why) +
               "; " + next + ".\n");
}

std::string Reporter::failed(const rendezvous::Outcome& outcome) {
  const FailureReport report = report_of(outcome);
  std::string text = to_text(report);
  print_end(text);
  if (!options_.own_error_file.empty())
    write_own_error_file(report, error_content(workers_.records().at(outcome.cause->local_rank)));
  return text;
}

std::string Reporter::report_text(const rendezvous::Outcome& outcome) const { return to_text(report_of(outcome)); }

std::string Reporter::failed_elsewhere(const rendezvous::Outcome& outcome, const std::optional<std::string>& report) {
  const rendezvous::Failure& failure = *outcome.cause;
  std::string text = report.value_or("ddprun: the job failed: rank " + std::to_string(failure.rank) + " on " +
                                     failure.host + " " + in_words(failure) + "; " + outcome.reason + ".\n");
  print_end(text);
  return text;
}

void Reporter::print_end(const std::string& text) {
  pipes_.show_tracebacks(text);
  if (options_.prints_end) pipes_.print_lines(text);
}

void Reporter::ended(const rendezvous::Outcome& outcome) {
  if (!options_.prints_end) return;
  const bool refused = outcome.verdict == rendezvous::Verdict::refused;
  pipes_.print((refused ? "ddprun: the job refuses this node: " : "ddprun: the job ended: ") + outcome.reason + ".\n");
}

void Reporter::regrouping(const rendezvous::EndRound& end) {
  const std::string who = end.cause ? "rank " + std::to_string(end.cause->rank) + " on " + end.cause->host + " " +
                                          in_words(*end.cause) +
                                          (end.cause->how.empty() ? "" : ": it " + end.cause->how) + "; "
                                    : "";
  pipes_.print("ddprun: " + who + end.reason + (end.cause ? ".\n" : ": a new round begins.\n"));
}

void Reporter::unhealthy(const std::string& why) {
  pipes_.print("ddprun: this node does not pass its health check (" + why +
               "): it takes part in no round until it does.\n");
}

void Reporter::excluded(const rendezvous::Excluded& excluded) {
  const auto minutes = std::chrono::ceil<std::chrono::minutes>(excluded.lasts).count();
  pipes_.print("ddprun: this node is excluded for " + std::to_string(minutes) + " min (" + excluded.why +
               "), as long as enough others are there.\n");
}

void Reporter::only_here(const std::string& host, const std::string& option) {
  pipes_.print("ddprun: the nodes are to meet at " + host + ", the loopback address of every machine: pass " + option +
               " with an address that all of them can reach.\n");
}

// The os.environ of a worker cannot be read, so its script is, once the job has failed by a hang, or by an error in
// which such a variable may have a part.
std::string Reporter::note_of(const rendezvous::Failure& failure) const {
  const bool may_be_why = failure.status.hung || (failure.status.code != 0 &&
                                                  is_about_meeting(pipes_.last_lines(failure.round, failure.rank)));
  if (!may_be_why) return {};
  const std::string script = script_of(options_.argv);
  const auto sets = script_sets(worker_files_.script(script));
  if (!sets) return {};
  return std::filesystem::path(script).filename().string() + ":" + std::to_string(sets->line) + " sets " +
         sets->variable + ", which ddprun had set for this worker: that may be why";
}

FailureReport Reporter::report_of(const rendezvous::Outcome& outcome) const {
  const rendezvous::Failure& failure = *outcome.cause;
  const WorkerRecord& record = workers_.records().at(failure.local_rank);
  const Noticed notice = notice_of(failure);
  FailureReport report{failure, outcome.reason, options_.host, options_.program, record.pid};
  report.when = notice.at_wall;
  report.into_round = notice.at - record.started_at;
  Clues clues = clues_of(failure);
  clues.python = python_here(options_.program_path);
  report.last_lines = clues.last_lines;
  report.meaning = meaning_of(clues);
  report.note = note_of(failure);
  report.core = core_in_words(failure, record);
  if (const std::string content = error_content(record); !content.empty()) report.error = error_in(content);
  if (layout_.keeps_logs()) report.log = (record.stderr_log.empty() ? record.folder : record.stderr_log).string();
  report.world_size = workers_.world_size();
  report.is_shown = held_back(failure).empty() && !layout_.keeps_logs();
  for (const auto& [local_rank, other] : workers_.records())
    if (local_rank != failure.local_rank && other.status)
      report.others.push_back({workers_.rank_of(local_rank), *other.status,
                               *other.status == failure.status && last_line_to_compare(pipes_.last_lines(
                                                                      failure.round, workers_.rank_of(local_rank))) ==
                                                                      last_line_to_compare(report.last_lines)});
  return report;
}

Clues Reporter::clues_of(const rendezvous::Failure& failure) const {
  Clues clues{.status = failure.status, .memory_before = memory_before_, .memory_after = notice_of(failure).memory};
  if (failure.status.start_error)
    clues.why_not_started = why_not_started(failure.status.start_error, look_at_program(options_.program_path),
                                            own_machine(), look_at_program);
  if (const auto timer = timers_.find(failure.local_rank); timer != timers_.end()) clues.timer = timer->second;
  clues.output_rule = output_rule_;
  if (!failure.how.empty()) clues.hang = "it " + failure.how;
  clues.last_lines = pipes_.last_lines(failure.round, failure.rank);
  return clues;
}

rendezvous::FailureClass Reporter::class_of(const rendezvous::Failure& failure, bool progressed) const {
  return agent::class_of(clues_of(failure), progressed);
}

std::string Reporter::core_in_words(const rendezvous::Failure& failure, const WorkerRecord& record) const {
  if (!dumps_core(failure.status.signal)) return {};
  const CorePlace place = core_place(core_facts(record.pid, failure.status.signal, options_.host));
  if (!place.handler.empty()) return handler_in_words(place.handler, record.pid);
  const auto ran = std::chrono::duration_cast<WallTime::duration>(record.ended_at - record.started_at);
  const FoundCore core = find_core(place, record.ended_at_wall - ran - kFileTimeSlack);
  if (!core.path.empty()) return core.path + " (" + bytes_in_words(core.bytes) + ")";
  return options_.core_dumps ? "none at " + place.path
                             : "none, because workers start with a core limit of 0: pass --core-dumps for one";
}

std::string Reporter::error_content(const WorkerRecord& record) const {
  return worker_files_.error_file(record.error_file, Links::refused);
}

void Reporter::write_own_error_file(const FailureReport& report, const std::string& worker_content) {
  WorkerEndFacts end{report.failure.status, report.pid, report.when};
  end.message = headline(report.failure, report.into_round) + " on " + report.host +
                (report.meaning.empty() ? "" : ": " + report.meaning);
  end.last_lines = joined(report.last_lines);
  const std::string name = "TORCHELASTIC_ERROR_FILE " + options_.own_error_file;
  files_.post(name, 0,
              [name, file = options_.own_error_file, text = parent_error_file(worker_content, end)]() -> std::string {
                return replace_file(file, text) ? "" : "cannot write " + name + ": " + std::strerror(errno);
              });
}

}  // namespace ddprun::agent
