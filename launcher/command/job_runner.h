// Runs a described job on this node: fetches its snapshot, starts ddprun, follows its events, copies the snapshot away,
// and writes the record.
//
// A process of its own above ddprun: what it adds is no part of the agent, and a job ends well although it is killed.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "launcher/jobs/job_description.h"
#include "launcher/jobs/job_record.h"

namespace ddprun::launcher {

struct RunRequest {
  JobDescription job;
  JobRecord record;
  std::string ddprun;                              // the program's path
  int node = 0;                                    // the first one, 0, writes the record and copies the snapshot
  bool keeps_log = true;                           // false: somebody else writes our output to the record's log
  std::map<std::string, std::string> environment;  // for ddprun
  std::string token_file = {};                     // for ddprun; empty: none
};

// Returns ddprun's exit code; 69 if the snapshot cannot be fetched, 73 if the job has ended well and its last snapshot
// cannot be stored. Signals go to ddprun; SIGINT and SIGTERM after its end stop the last copy. Throws Error if the job
// cannot be started, and not once it runs.
int run_job(RunRequest request);

// Of the scheduler's step or the pod that we are in: which of the job's nodes this is; 0 elsewhere.
int node_number(const std::map<std::string, std::string>& environment);

}  // namespace ddprun::launcher
