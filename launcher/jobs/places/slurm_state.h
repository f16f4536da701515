// Reads what `sbatch`, `scontrol show job` and `sacct` print. Pure: text in, values out.
#pragma once
#include <optional>
#include <string>

#include "launcher/jobs/places/place_state.h"
#include "launcher/scheduler/program_run.h"

namespace ddprun::launcher {

// "1234", or "1234;cluster". Slurm's programs take an empty one for all jobs, and part of another for somebody else's.
bool is_slurm_id(const std::string& id);

// What `sbatch --parsable` has done.
struct SbatchAnswer {
  std::string id = {};   // of the new job; empty: none was told
  bool refused = false;  // there is no job; neither this nor an id: there may be one
};
SbatchAnswer answer_of_sbatch(const ProgramEnd& end);

// Of `scontrol show job ID`. Empty: the text has no job in it.
std::optional<PlaceState> state_from_scontrol(const std::string& text);
// Of an answer about several jobs, also of an interactive scontrol: the text about each, by its number.
std::map<std::string, std::string> jobs_of_scontrol(const std::string& text);

// The fields to ask sacct for, with --parsable2 --noheader --duplicates --allocations.
inline constexpr const char* kSacctFields = "JobIDRaw,State,ExitCode,NodeList";
// By the job's number, from a line for each start, the last one last.
std::map<std::string, PlaceState> states_from_sacct(const std::string& text);

// "KillWait = 30 sec" of `scontrol show config`, in seconds: from SIGTERM to SIGKILL of a job that is cancelled.
std::optional<int> kill_wait_from_config(const std::string& text);

}  // namespace ddprun::launcher
