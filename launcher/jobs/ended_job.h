// Keeps a record of a job that ddprun was started with directly, once it has ended, for `ddprun list` and the like.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "agent/logs/job_end.h"
#include "launcher/jobs/recorded_status.h"
#include "launcher/plan/plan.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::launcher {

// Who started ddprun, and how.
struct Start {
  std::vector<std::string> words = {};  // without "ddprun"
  MilliSeconds at = 0;
  bool prints_end = true;  // how the job ended is printed on stderr, too
  bool keeps_record = true;
};

MilliSeconds now_in_ms();

// Says that who starts ddprun keeps a record of the job itself, as `ddprun run` does.
constexpr const char* kHasRecordVariable = "DDPRUN_HAS_RECORD";
// Whether a record is to be kept: nobody else does, and no worker of another job has started us. Unsets the variable.
bool take_record_variable();

// Of a job on several nodes the first one keeps it, as they may share their users' folders. `seat`: this node's last
// one.
bool is_first_node(const RecordFacts& facts, const std::optional<rendezvous::Seat>& seat);
// It costs the job nothing where it cannot be kept, and some seconds where its folder does not answer: kKeepLimit,
// and the keeper's wait for a process that the kernel holds.
void keep_record(const Start& start, const RecordFacts& facts, const std::optional<rendezvous::Seat>& seat,
                 const agent::JobEnd& end);

}  // namespace ddprun::launcher
