#include "launcher/jobs/places/slurm.h"

#include <unistd.h>

#include <thread>
#include <vector>

#include "launcher/jobs/places/program_run.h"
#include "launcher/jobs/places/slurm_state.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using SlurmCommand = std::vector<std::string>;

constexpr std::chrono::seconds kAnswerLimit{30};
constexpr const char* kAskWhetherUp = "scontrol ping shows whether slurmctld is up.";
constexpr std::chrono::milliseconds kLookAtJob{500};  // between two looks at a job that is to end

ProgramEnd ask_slurm(const SlurmCommand& words, const std::string& what) {
  ProgramEnd end = run_program(words, kAnswerLimit);
  if (end.how == ProgramEnd::How::not_found)
    throw Error(what, "there is no " + words[0] + " on PATH",
                "Run ddprun where Slurm's programs are: on a login node.");
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
  const std::size_t semicolon = id.find(';');
  if (semicolon == id.npos) return {id, {}};
  return {id.substr(0, semicolon), {"--clusters=" + id.substr(semicolon + 1)}};
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

std::optional<PlaceState> finished_state(const SlurmId& id) {
  ProgramEnd end = run_program(slurm_command("sacct", id,
                                             {"--parsable2", "--noheader", "--duplicates", "--allocations",
                                              std::string("--format=") + kSacctFields, "--jobs=" + id.job}),
                               kAnswerLimit);
  return end.succeeded() ? state_from_sacct(end.out) : std::nullopt;  // without accounting it says so, and fails
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

std::string submit_to_slurm(const std::string& script_file) {
  const std::string what = "cannot submit the job to Slurm";
  forget_sbatch_variables();
  const ProgramEnd end = ask_slurm({"sbatch", "--parsable", script_file}, what);
  if (!end.succeeded()) refuse_slurm(what, end, "Options of sbatch are in [slurm] of the job file.");
  return settings::trimmed(split(end.out, '\n').front());
}

std::string test_with_slurm(const std::string& script_file) {
  const std::string what = "Slurm would not take the job";
  forget_sbatch_variables();
  const ProgramEnd end = ask_slurm({"sbatch", "--test-only", script_file}, what);
  if (!end.succeeded()) refuse_slurm(what, end, "Options of sbatch are in [slurm] of the job file.");
  const std::string text = slurm_said(end);
  return text.starts_with("sbatch: ") ? text.substr(8) : text;
}

PlaceState slurm_job_state(const std::string& job_id) {
  const SlurmId id = slurm_id(job_id);
  const std::string what = "cannot ask Slurm about the job " + id.job;
  const ProgramEnd end = ask_slurm(slurm_command("scontrol", id, {"show", "job", id.job}), what);
  if (const auto state = end.succeeded() ? state_from_scontrol(end.out) : std::nullopt) return *state;
  if (end.err.find("Invalid job id") == end.err.npos) refuse_slurm(what, end);
  if (const auto state = finished_state(id)) return *state;
  return {PlaceState::Phase::gone, "Slurm does not know the job " + id.job + " any more", {}, 0, {}};
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
