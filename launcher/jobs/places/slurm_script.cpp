#include "launcher/jobs/places/slurm_script.h"

#include "launcher/jobs/places/place_words.h"
#include "launcher/jobs/places/quoting.h"
#include "launcher/jobs/places/slurm_container.h"
#include "launcher/jobs/places/slurm_words.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kBeforeSrun = R"(
# scancel, scontrol requeue and the time limit end this script by SIGTERM, too: it stays for srun's last lines and its code.
trap : TERM
# srun no longer reads sbatch's --cpus-per-task, and a task would get one core.
if [ -n "$SLURM_CPUS_PER_TASK" ]; then export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK; fi
)";

// A new name for each start: a node may still know that an older file was removed (NFS).
constexpr const char* kMakeToken = R"(
# Other users of the cluster do not know it: only this job's nodes join. In a file, as programs show their environment.
token=$record/token-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}
unset DDPRUN_TOKEN
rm -f "$record"/token-*
(umask 077 && "$ddprun" --make-token >"$token") || exit
)";

constexpr const char* kAskForRequeue =
    R"(# 75: everything is saved. Slurm ends this script here, and starts it again later; but not a job that somebody has cancelled.
if [ "$code" = 75 ] && scontrol --oneliner show job "$SLURM_JOB_ID" | grep -qE 'JobState=(RUNNING|SIGNALING)|Reason=TimeLimit'; then
  scontrol requeue "$SLURM_JOB_ID"
fi
)";

std::string sbatch_lines(const SchedulerWords& words) {
  std::string out;
  for (const auto& [name, value] : words)
    out += "#SBATCH --" + name + (value.empty() ? "" : "=" + sbatch_word(value)) + "\n";
  return out;
}

// srun does not take these from sbatch, or hands on less than the script has.
std::string srun_options(const SchedulerWords& words) {
  return std::string(has_word(words, "no-kill") ? " --no-kill" : "") +
         (has_word(words, "export") ? " --export=ALL" : "");
}

}  // namespace

std::string slurm_script(const JobDescription& job, const std::string& record_folder, const std::string& ddprun) {
  const SchedulerWords words = sbatch_options(job, record_folder);
  std::string out =
      "#!/bin/bash\n# Made by ddprun submit. Runs the job of the file job.toml in the folder `record` below, which all "
      "nodes must share.\n";
  out += sbatch_lines(words) + kBeforeSrun;
  out += "\nddprun=" + shell_word(ddprun) + "\nrecord=" + shell_word(record_folder) + "\n";
  const bool token = needs_token(job);
  out += token ? kMakeToken : "";
  const ContainerLines container = container_lines(job, container_words(job));
  out += container.before;
  out += "\ncode=0\nsrun" + srun_options(words) + container.srun_options + " " + container.entry + container.program +
         " run --record \"$record\"" + (token ? " --token-file \"$token\"" : "") + " || code=$?\n";
  out += token ? "rm -f \"$token\"\n" : "";
  out += has_word(words, "no-requeue") ? "" : kAskForRequeue;
  return out + "exit \"$code\"\n";
}

}  // namespace ddprun::launcher
