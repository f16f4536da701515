// How a rank of `train` reports what ends it: one sentence, of one rank, and an exit code.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/channel/worker_exit.h"
#include "trainer/config/command_line.h"
#include "trainer/ddp/group/rank_env.h"

namespace ddprun::train {

constexpr int kFailed = 1, kUsage = kWorkerExitUsage, kUnsaved = kWorkerExitUnsaved,
              kRequeue = 75;  // as ddprun's own, EX_TEMPFAIL

// Called before printing an error that all ranks find: if rank 0 prints it and exits, the launcher ends us meanwhile.
void wait_for_rank_0_report(const RankEnv& env);
// Returns kUsage.
int report_usage_errors(const std::vector<std::string>& sentences, const RankEnv& env);
// --help and the like.
int exit_early(const EarlyExit& early_exit);
// Who means one training per process learns how to have it.
void say_where_ranks_are_from(const RankEnv& env);
// Runs `work` and reports its exceptions.
int run_and_report(const RankEnv& env, const std::function<int()>& work);

}  // namespace ddprun::train
