#include "launcher/jobs/places/slurm.h"

#include <unistd.h>

#include <map>
#include <string_view>
#include <thread>

#include "launcher/jobs/places/slurm_state.h"
#include "launcher/scheduler/program_run.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using SlurmCommand = std::vector<std::string>;

constexpr std::chrono::seconds kAnswerLimit{30};
constexpr std::string_view kClusters = "--clusters=";
constexpr const char* kAskWhetherUp = "scontrol ping shows whether slurmctld is up.";
constexpr std::chrono::milliseconds kLookAtJob{500};  // between two looks at a job that is to end

std::chrono::milliseconds in_ms(Duration limit) { return std::chrono::ceil<std::chrono::milliseconds>(limit); }

Error no_slurm(const std::string& what, const std::string& program) {
  return Error(what, "there is no " + program + " on PATH", "Run ddprun where Slurm's programs are: on a login node.");
}

ProgramEnd ask_slurm(const SlurmCommand& words, const std::string& what, Duration limit = kAnswerLimit,
                     const std::string& input = {}) {
  ProgramEnd end = run_program(words, in_ms(limit), input);
  if (end.how == ProgramEnd::How::not_found) throw no_slurm(what, words[0]);
  if (end.how == ProgramEnd::How::too_late) throw Error(what, "Slurm did not answer within 30 s", kAskWhetherUp);
  return end;
}

// What it printed, in one line.
std::string slurm_said(const ProgramEnd& end) {
  SlurmCommand lines = split(settings::trimmed(end.err.empty() ? end.out : end.err), '\n');
  std::erase(lines, "");
  for (std::string& line : lines) line = visible(line);
  const std::string text = settings::joined(lines, "; ");
  return text.empty() ? "it ended with " + std::to_string(end.code) : text;
}

[[noreturn]] void refuse_slurm(const std::string& what, const ProgramEnd& end, const std::string& remedy = "") {
  const std::string text = slurm_said(end);
  const bool no_contact = text.find("timed out") != text.npos || text.find("Unable to contact") != text.npos;
  throw Error(what, text, no_contact ? kAskWhetherUp : remedy);
}

struct SlurmId {
  std::string job = {};
  SlurmCommand clusters = {};  // --clusters=NAME, or nothing
};
SlurmId slurm_id(const std::string& id) {
  if (!is_slurm_id(id)) throw UsageError("cannot ask Slurm about a job", "'" + visible(id) + "' is no number of one");
  const std::size_t semicolon = id.find(';');
  if (semicolon == id.npos) return {id, {}};
  return {id.substr(0, semicolon), {std::string(kClusters) + id.substr(semicolon + 1)}};
}

SlurmCommand slurm_command(const char* program, const SlurmId& id, const SlurmCommand& rest) {
  SlurmCommand words{program};
  words.insert(words.end(), id.clusters.begin(), id.clusters.end());
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

// Variables that would change what is submitted, or when sbatch returns.
void forget_sbatch_variables() {
  for (const char* name : {"SBATCH_WAIT", "SBATCH_ARRAY_INX", "SBATCH_OUTPUT", "SBATCH_ERROR", "SBATCH_OPEN_MODE",
                           "SBATCH_TEST_ONLY", "SBATCH_WAIT_ALL_NODES"})
    unsetenv(name);
}

using States = std::map<std::string, PlaceState>;  // by the job's number

// Those that Slurm has forgotten; without accounting sacct says so, and fails.
States finished_states(const SlurmCommand& clusters, const SlurmCommand& jobs, Duration limit) {
  const ProgramEnd end =
      run_program(slurm_command("sacct", {{}, clusters},
                                {"--parsable2", "--noheader", "--duplicates", "--allocations",
                                 std::string("--format=") + kSacctFields, "--jobs=" + settings::joined(jobs, ",")}),
                  in_ms(limit));
  return end.succeeded() ? states_from_sacct(end.out) : States();
}

// Whether it has complained about something else than a job that it does not know.
bool complains(const ProgramEnd& end) {
  SlurmCommand lines = split(end.err, '\n');
  std::erase_if(lines,
                [](const std::string& line) { return line.empty() || line.find("Invalid job id") != line.npos; });
  return !lines.empty() || (end.err.empty() && !end.succeeded());
}

// One that Slurm does not answer about is left out. Throws Error if it answers about none.
States states_at(const SlurmCommand& clusters, const SlurmCommand& jobs, TimePoint deadline) {
  const bool one = jobs.size() == 1;
  const std::string what = one ? "cannot ask Slurm about the job " + jobs[0] : "cannot ask Slurm about its jobs";
  // Interactive, scontrol goes on at a job that it does not know: one process for all.
  const std::string questions = one ? "" : "show job " + settings::joined(jobs, "\nshow job ") + "\n";
  const ProgramEnd end =
      ask_slurm(slurm_command("scontrol", {{}, clusters}, one ? SlurmCommand{"show", "job", jobs[0]} : SlurmCommand{}),
                what, deadline - Clock::now(), questions);
  States out;
  for (const auto& [job, text] : jobs_of_scontrol(end.out))
    if (const auto state = state_from_scontrol(text)) out[job] = *state;
  SlurmCommand unknown = jobs;
  std::erase_if(unknown, [&](const std::string& job) { return out.contains(job); });
  if (!unknown.empty() && complains(end)) {
    if (out.empty()) refuse_slurm(what, end);
    return out;
  }
  if (!unknown.empty()) out.merge(finished_states(clusters, unknown, deadline - Clock::now()));
  for (const std::string& job : unknown)
    out.emplace(job,
                PlaceState{PlaceState::Phase::gone, "Slurm does not know the job " + job + " any more", {}, 0, {}});
  return out;
}

bool still_runs(const std::string& job_id) { return slurm_job_state(job_id).phase == PlaceState::Phase::running; }

// The steps' processes get SIGTERM, and the script does not: it stays for their end.
void let_it_save(const std::string& job_id, const SlurmId& id, Duration grace) {
  ask_slurm(slurm_command("scancel", id, {"--signal=TERM", id.job}), "cannot stop Slurm's job " + id.job);
  for (const TimePoint end = Clock::now() + grace; Clock::now() < end && still_runs(job_id);)
    std::this_thread::sleep_for(kLookAtJob);
}

Duration kill_wait() {
  const ProgramEnd end = ask_slurm({"scontrol", "show", "config"}, "cannot ask Slurm for its KillWait");
  return std::chrono::seconds(kill_wait_from_config(end.out).value_or(0));
}

}  // namespace

std::string submit_to_slurm(const std::string& script_file, const SubmissionPatience& patience) {
  const std::string what = "cannot submit the job to Slurm";
  forget_sbatch_variables();
  const ProgramEnd end =
      run_program({"sbatch", "--parsable", script_file}, patience.give_up_after, {},
                  {patience.tell_after, [&] {
                     if (patience.tell)
                       patience.tell("sbatch has not ended yet; it may have submitted the job, so ddprun waits.");
                   }});
  const SbatchAnswer answer = answer_of_sbatch(end);
  if (!answer.id.empty()) return answer.id;
  if (end.how == ProgramEnd::How::not_found) throw no_slurm(what, "sbatch");
  if (answer.refused) refuse_slurm(what, end, "Options of sbatch are in [slurm] of the job file.");
  if (end.how == ProgramEnd::How::too_late) throw SubmissionUnclear("sbatch did not end and was killed");
  throw SubmissionUnclear(end.succeeded() ? "sbatch told no number, but: " + slurm_said(end) : slurm_said(end));
}

PlaceState slurm_job_state(const std::string& job_id) {
  const SlurmId id = slurm_id(job_id);
  return states_at(id.clusters, {id.job}, Clock::now() + kAnswerLimit).at(id.job);
}

PlaceAnswers slurm_job_states(const std::vector<std::string>& job_ids) {
  const TimePoint deadline = Clock::now() + kAnswerLimit;
  std::map<SlurmCommand, SlurmCommand> numbers;
  for (const std::string& id : job_ids) numbers[slurm_id(id).clusters].push_back(slurm_id(id).job);
  PlaceAnswers out;
  for (const auto& [clusters, jobs] : numbers) try {
      for (const auto& [job, state] : states_at(clusters, jobs, deadline))
        out.states[clusters.empty() ? job : job + ";" + clusters[0].substr(kClusters.size())] = state;
    } catch (const Error& error) {
      out.problem = error.what();
    }
  return out;
}

void cancel_slurm_job(const std::string& job_id, Duration grace) {
  const SlurmId id = slurm_id(job_id);
  const std::string what = "cannot cancel Slurm's job " + id.job;
  const PlaceState::Phase phase = slurm_job_state(job_id).phase;
  if (phase == PlaceState::Phase::running && kill_wait() < grace) let_it_save(job_id, id, grace);
  const ProgramEnd end = ask_slurm(slurm_command("scancel", id, {id.job}), what);
  // A job that Slurm holds after its end is removed; of one that has really ended it says that.
  if (!end.succeeded() && !has_ended(phase)) refuse_slurm(what, end);
}

}  // namespace ddprun::launcher
