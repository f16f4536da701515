#include "launcher/command/job_commands.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <map>
#include <thread>
#include <utility>

#include "launcher/command/job_runner.h"
#include "launcher/command/job_submission.h"
#include "launcher/command/rank_log.h"
#include "launcher/command/top_command.h"
#include "launcher/config/exit_codes.h"
#include "launcher/config/inputs.h"
#include "launcher/config/machine.h"
#include "launcher/jobs/job_words.h"
#include "launcher/jobs/places/kubernetes.h"
#include "launcher/jobs/places/place_words.h"
#include "launcher/jobs/places/shared_record.h"
#include "launcher/jobs/places/slurm.h"
#include "launcher/plan/search_context.h"
#include "launcher/running/etcd_jobs.h"
#include "launcher/running/job_facts.h"
#include "launcher/running/job_view.h"
#include "launcher/running/live_job.h"
#include "launcher/running/status_watch.h"
#include "launcher/running/watched_job.h"
#include "launcher/scheduler/program_run.h"
#include "launcher/view/terminal.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kListed = 30;
constexpr std::size_t kAsked = 100;  // a scheduler is asked about at most so many at once
constexpr std::chrono::milliseconds kFileEvery{200};
constexpr std::chrono::seconds kSchedulerEvery{2}, kEtcdLimit{10};

std::string member_text(const nlohmann::json& from, const char* key) {
  return from.is_object() ? from.value(key, "") : "";
}

int complain(const std::string& command, const std::string& sentence, int code) {
  print_line(stderr, "ddprun " + command + ": " + sentence);
  return code;
}

// In ASCII: escaped for a terminal, a control character would be no JSON.
std::string shown_json(const nlohmann::json& json) { return json_text(json, {.indent = 2, .ascii = true}) + "\n"; }

// Whether it may be cancelled from here, as far as is known.
bool goes_on(const JobFacts& facts) {
  const std::string state = state_of(facts);
  const bool is_elsewhere =
      !facts.scheduler && facts.status.is_object() && facts.status.value("host", "") != host_name();
  return !is_ended(state) && state != "unknown" && !is_elsewhere;
}

// One for each job.
std::vector<RunningAgent> agents_without_record() {
  std::map<std::pair<uid_t, std::string>, RunningAgent> by_job;
  for (const RunningAgent& agent : own_agents())
    if (!record_above(agent)) by_job.emplace(std::pair(agent.user, agent.address.run_id), agent);
  std::vector<RunningAgent> out;
  for (auto& [id, agent] : by_job) out.push_back(std::move(agent));
  return out;
}

// A running job without a record, by its whole run id or a process id: what acts on a job takes no beginning of one.
const RunningAgent* plain_agent(const std::vector<RunningAgent>& agents, const std::string& job) {
  if (job.empty()) return nullptr;
  const Choice choice = choose_job(agents, job, Purpose::act);
  if (!choice.agent || record_above(*choice.agent)) return nullptr;
  const std::string& run_id = choice.agent->address.run_id;
  const bool by_beginning = run_id.starts_with(job) && run_id != job;
  return by_beginning ? nullptr : choice.agent;
}

int run_record(const LoadedJob& loaded, const JobRecord& record, bool keeps_log, const std::string& token_file = {}) {
  const auto environment = own_environment();
  wipe_token_variable();
  return run_job({loaded.job, record, own_program(), node_number(environment), keeps_log, environment, token_file});
}

int run_file(const JobWords& words) {
  if (!words.record.empty()) {
    check_shared_record(words.record);
    const JobRecord record(fs::absolute(words.record).lexically_normal());
    return run_record(load_job(record), record, false, words.token_file);
  }
  const LoadedJob loaded = load_job(words);
  if (words.dry_run) return print_text(stdout, dry_submission(loaded, Place::here)), kSuccess;
  return run_record(loaded, record_of(loaded, Place::here), true);
}

// Copies what is new in the log to stdout.
class LogReader {
 public:
  explicit LogReader(const fs::path& file) : file_(file) {}
  void read() {
    if (!fd_) fd_ = Fd(::open(file_.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 1 << 16> piece;
    for (ssize_t size; fd_ && (size = ::read(fd_.get(), piece.data(), piece.size())) > 0;)
      std::fwrite(piece.data(), 1, static_cast<std::size_t>(size), stdout);
    std::fflush(stdout);
  }

 private:
  fs::path file_;
  Fd fd_;
};

// Shows the log until the job has ended.
JobFacts follow(const JobRecord& record) {
  LogReader log(record.path("log"));
  auto ask_at = Clock::now();
  const auto place = place_of(record.submitted());
  const Duration every = place == Place::slurm || place == Place::kubernetes ? Duration(kSchedulerEvery) : kFileEvery;
  while (true) {
    log.read();
    if (Clock::now() >= ask_at) {
      JobFacts facts = facts_of(record);
      if (is_ended(state_of(facts)) || is_unknown(state_of(facts))) return log.read(), facts;
      ask_at = Clock::now() + every;
    }
    std::this_thread::sleep_for(kFileEvery);
  }
}

int submit_file(const JobWords& words) {
  const LoadedJob loaded = load_job(words);
  if (words.dry_run) return print_text(stdout, dry_submission(loaded, words.to)), kSuccess;
  const JobRecord record = record_of(loaded, words.to);
  if (words.to == Place::slurm || words.to == Place::kubernetes) wipe_token_variable();  // a job there has its own
  submit(loaded, record, words.to);
  std::printf("%s\n", text_of(Handle{words.to, record.id()}).c_str());
  std::fflush(stdout);
  if (!words.wait) return kSuccess;
  const JobFacts end = follow(record);
  return exit_code_of(end).value_or(kInternalError);
}

// Where the output of a job without a file is, and how it is kept.
std::string about_plain_log(const std::string& id, const std::string& log_folder) {
  if (!log_folder.empty()) return id + " has its output in the files below " + visible(log_folder) + ".";
  return id + " keeps no log: it was started without a job's file, and its output goes where ddprun's own goes. " +
         "--log-dir DIR keeps it in files; of several nodes each rank's can be had: ddprun log JOB --rank N.";
}

// Without a name a job of a file goes before others, which have no log, and which nobody expects to be cancelled by it.
JobRecord newest_of_file(const JobWords& words) {
  for (const JobRecord& record : records_if_any())
    if (!is_plain(record)) return record;
  return record_named(words);
}

JobRecord record_for_log(const JobWords& words) {
  if (words.handle.empty()) return newest_of_file(words);
  const std::vector<RunningAgent> agents = own_agents();
  if (const RunningAgent* agent = plain_agent(agents, words.handle))
    throw JobRefused(about_plain_log(visible(agent->address.run_id), ""));
  return record_named(words);
}

int show_log(const JobWords& words) {
  const JobRecord record = record_for_log(words);
  if (is_plain(record)) throw JobRefused(about_plain_log(record.id(), member_text(record.submitted(), "log_folder")));
  const nlohmann::json submitted = record.submitted();
  if (place_of(submitted) == Place::kubernetes)
    become_program(kubernetes_log_command(kubernetes_job(submitted), words.follow));
  if (words.follow) return follow(record), kSuccess;
  LogReader(record.path("log")).read();
  return kSuccess;
}

void cancel_here(const JobRecord& record, const JobFacts& facts) {
  if (!facts.status.is_object()) throw Error("cannot cancel " + facts.id, "it is just being started", "Try again.");
  if (facts.status.value("host", "") != host_name())
    throw UsageError("cannot cancel " + facts.id, "it runs on " + facts.status.value("host", "another machine"),
                     "Do it there.");
  record.write_text("cancelled", "");
  if (!facts.runner_is_gone) kill(facts.status.value("pid", 0), SIGTERM);
}

// Without a number or a name the scheduler could only be asked about other jobs.
void refuse_unclear(const JobFacts& facts) {
  if (!facts.problem.empty()) throw JobRefused(facts.problem);
  const bool scheduled = facts.place == Place::slurm || facts.place == Place::kubernetes;
  if (scheduled && !can_ask(facts)) throw JobRefused(unclear_of(facts));
}

// As `ddprun ctl stop`.
int cancel_plain(const RunningAgent& agent) {
  const rendezvous::ActResult answer = LiveJob(agent).act({.kind = rendezvous::ActKind::stop, .by = own_name()});
  if (!answer.done) throw JobRefused(visible(agent.address.run_id) + " is not cancelled: " + answer.text + ".");
  return kSuccess;
}

// The newest ones, and older ones that go on as far as their record says.
std::vector<JobFacts> jobs_to_list() {
  std::vector<JobFacts> jobs;
  for (const JobRecord& record : records_if_any()) {
    JobFacts facts = recorded_facts(record);
    if (jobs.size() < kListed || (jobs.size() < kAsked && is_current(facts))) jobs.push_back(std::move(facts));
  }
  return jobs;
}

// To end one of several, it has to be named.
void refuse_if_several() {
  std::vector<JobFacts> jobs = jobs_to_list();
  ask_places(jobs);  // of one that does not answer what its record says
  std::vector<std::string> going;
  for (const JobFacts& job : jobs)
    if (goes_on(job)) going.push_back(job.id);
  if (going.size() > 1)
    throw JobRefused("several jobs have not ended; name one of them: " + listed(going, "and") + ".");
}

int cancel(const JobWords& words) {
  if (words.handle.empty()) refuse_if_several();
  const std::vector<RunningAgent> agents = own_agents();
  if (const RunningAgent* agent = plain_agent(agents, words.handle)) return cancel_plain(*agent);
  const JobRecord record = words.handle.empty() ? newest_of_file(words) : record_named(words);
  refuse_unclear(recorded_facts(record));
  const JobFacts facts = facts_of(record);
  if (const std::string state = state_of(facts); is_ended(state)) {
    print_line(stderr, "ddprun cancel: " + facts.id + " has ended: " + state + ".");
    return kSuccess;
  }
  if (facts.place == Place::here || facts.place == Place::ssh) return cancel_here(record, facts), kSuccess;
  record.write_text("cancelled", "");
  if (facts.place == Place::slurm)
    cancel_slurm_job(facts.submitted.value("place_id", ""), stop_grace_of(load_job(record).job));
  else
    cancel_kubernetes_job(kubernetes_job(facts.submitted));
  return kSuccess;
}

int watch(const JobWords& words) {
  WatchedJob job(words);
  const std::chrono::duration<double> every(*words.watch);
  watch_status([&](std::size_t columns) { return job.look(columns); }, std::chrono::duration_cast<Duration>(every));
  return kSuccess;
}

int show_facts(const JobWords& words) {
  if (words.watch) return watch(words);
  const bool of_newest_record = words.command == "describe" && words.handle.empty();
  const JobFacts facts = of_newest_record ? facts_of(record_named(words)) : status_of(words);
  if (words.json)
    print_text(stdout, shown_json(describe_json(facts)));
  else
    print_text(stdout, words.command == "status" ? status_text(facts, output_columns()) : describe_text(facts));
  return kSuccess;
}

int list_at_etcd(const JobWords& words) {
  const Config config = config_of_access(words.access, "");
  if (!config.etcd) throw JobRefused("it takes --rdzv-backend=etcd: only etcd can list jobs of other machines.");
  const std::vector<agent::EtcdEntry> jobs = agent::list_jobs(*config.etcd, kEtcdLimit);
  return print_text(stdout, words.json ? shown_json(etcd_list_json(jobs)) : etcd_list_text(jobs)), kSuccess;
}

int list_jobs(const JobWords& words) {
  if (!words.access.empty()) return list_at_etcd(words);
  std::vector<JobFacts> jobs = jobs_to_list();
  for (const std::string& problem : ask_places(jobs)) complain(words.command, problem, 0);
  for (const RunningAgent& agent : agents_without_record())
    jobs.push_back({.id = agent.address.run_id, .status = {{"started", started_ms(agent)}}, .has_record = false});
  sort_for_list(jobs);
  while (jobs.size() > kListed && !is_current(jobs.back())) jobs.pop_back();
  if (!words.json) return print_text(stdout, list_text(jobs)), kSuccess;
  nlohmann::json all = nlohmann::json::array();
  for (const JobFacts& job : jobs) all.push_back(describe_json(job));
  return print_text(stdout, shown_json(all)), kSuccess;
}

int execute(const JobWords& words) {
  const bool needs_token = words.command == "run" || words.command == "submit" || !words.access.empty();
  if (!needs_token) wipe_token_variable();  // schedulers' programs do not either
  if (words.command == "run") return run_file(words);
  if (words.command == "submit") return submit_file(words);
  if (words.command == "log") return words.rank ? show_rank_log(words) : show_log(words);
  if (words.command == "cancel") return cancel(words);
  if (words.command == "top") return show_top(words), kSuccess;
  return words.command == "list" ? list_jobs(words) : show_facts(words);
}

}  // namespace

int job_command(const std::vector<std::string>& all) {
  const JobWords words = read_job_words(all);
  if (!words.answer.empty()) return print_text(stdout, words.answer), kSuccess;
  if (!words.mistake.empty()) return complain(words.command, words.mistake, kUsage);
  try {
    return execute(words);
  } catch (const JobRefused& refused) {
    return complain(words.command, refused.what(), kUsage);
  } catch (const SubmissionUnclear& unclear) {
    return complain(words.command, unclear.what(), kDoNotRequeue);
  } catch (const UsageError& error) {
    return complain(words.command, error.what(), kUsage);
  } catch (const Error& error) {
    return complain(words.command, error.what(), kRendezvousImpossible);
  } catch (const std::exception& error) {
    return complain(words.command, error.what(), kInternalError);
  }
}

}  // namespace ddprun::launcher
