// The record of a job that was started without a file, `ddprun train.py`: written once, when the job has ended.
//
//   $XDG_STATE_HOME/ddprun/jobs/plain/<id>/    submitted.json and status.json, as of a job's file (job_record.h)
// Of each user the newest kPlainKept are kept. Jobs that end at the same moment do not disturb each other: a record
// appears as a whole, and older ones are removed by whoever comes first.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/jobs/job_record.h"
#include "launcher/jobs/recorded_status.h"

namespace ddprun::launcher {

constexpr std::size_t kPlainKept = 20;

struct PlainJob {
  Place place = Place::here;                    // ssh: its hosts were reached by it
  std::vector<std::string> command = {};        // with "ddprun"
  std::string program = {};                     // "runs/train.py"
  std::string folder = {};                      // where it was started
  std::string run_id = {}, host = {};           // this host, which keeps the record
  std::string event_log = {}, log_folder = {};  // absolute; empty: none
  MilliSeconds started = 0, ended = 0;
  int nodes = 1, round = 0, restarts = 0;  // of the last round; 0: there was none
  int exit_code = 0;
  nlohmann::json end = {};  // as DDPRUN_END_FILE has it
};

// What the record says. Long texts are cut.
nlohmann::json submitted_of(const PlainJob& job);
nlohmann::json status_of(const PlainJob& job);
// Such as "train" of train.py, of [A-Za-z0-9._-].
std::string plain_name(const std::string& program);

// Writes the record, and removes what is too old. Does nothing where that cannot be done, or where the folder belongs
// to another user, as root's HOME may. It may take long: the folder may be on a file server.
void keep_plain_record(const std::filesystem::path& records, const PlainJob& job);

}  // namespace ddprun::launcher
