// What people are shown of a job: its record, and what the place where it runs says of it. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/jobs/job_record.h"
#include "launcher/jobs/places/place_state.h"
#include "launcher/view/terminal_line.h"

namespace ddprun::launcher {

// All that there is to know, as `describe --json` prints it.
struct JobFacts {
  std::string id = {};
  Place place = Place::here;
  nlohmann::json submitted = {}, status = {};  // null: none yet
  bool cancelled = false;
  bool runner_is_gone = false;               // of a job here: its `ddprun run` has ended, however
  std::optional<PlaceState> scheduler = {};  // of Slurm and Kubernetes
  nlohmann::json live = {};                  // what its agent here answers (status_text.h); null: none does
  bool has_record = true;                    // false: ddprun itself was started, not a job's file
  std::string problem = {};                  // a sentence: why its record cannot be read
};

// queued, waiting, running, succeeded, preempted, stopped, failed, unknown, unclear (the scheduler may not have it) or
// unreadable.
std::string state_of(const JobFacts& facts);
bool is_ended(const std::string& state);
bool is_unknown(const std::string& state);  // unknown, unclear or unreadable
// Whether its scheduler can be asked about it by its number or name.
bool can_ask(const JobFacts& facts);
// Why it is unclear whether the scheduler has the job, and what to do; empty: it is clear.
std::string unclear_of(const JobFacts& facts);
// Of an ended job, as a shell would see it; empty: not known.
std::optional<int> exit_code_of(const JobFacts& facts);

// Lines "key: value", and a table of ranks. `columns`: of the terminal, if there is one.
std::string status_text(const JobFacts& facts, std::size_t columns = kAnyWidth);
std::string describe_text(const JobFacts& facts);  // more of them
nlohmann::json describe_json(const JobFacts& facts);
// Jobs that run go first, then those that wait for a scheduler, then all others; of each kind the newest first.
void sort_for_list(std::vector<JobFacts>& jobs);
// Whether `ddprun list` has to show it, however many newer ones there are.
bool is_current(const JobFacts& facts);
std::string list_text(const std::vector<JobFacts>& jobs);  // a table

}  // namespace ddprun::launcher
