#include "trainer/program/error_report.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>

#include "ddprun/process_group.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "trainer/ddp/collectives/all_or_none.h"
#include "trainer/ddp/group/lost_peer.h"

namespace ddprun::train {
namespace {

constexpr std::chrono::seconds kLauncherStopLimit{1};
// A node's first rank may have another command line than rank 0; its other ranks have the same as the first.
constexpr std::chrono::seconds kRank0ReportLimit{3};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// With NCCL's own last error, which stands further below.
std::string line_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch ? reason(*torch) : first_line(sentence_of(error));
}

// The launcher reports which rank failed first: when one dies, the others exit at once without output. Only a peer that
// is alive but did not arrive in time is reported.
int report(const std::exception& error, const RankEnv& env) {
  const std::string why = line_of(error);
  const bool timed_out = why.find("imed out") != std::string::npos || why.find("timeout") != std::string::npos;
  const std::string rank_prefix = env.world_size > 1 ? "rank " + std::to_string(env.rank) + ": " : "";
  if (!is_loss_of_peer(error))
    print_line(stderr, "train: " + rank_prefix + why);
  else if (timed_out || !env.under_agent)
    print_line(stderr, "train: rank " + std::to_string(env.rank) + " lost a peer and cannot go on without it: " + why);
  // A peer's sockets close before its launcher detects its death: if we exited now, our exit might come first and be
  // taken for the cause. The launcher ends us once it knows.
  if (is_loss_of_peer(error) && env.under_agent) std::this_thread::sleep_for(kLauncherStopLimit);
  return kFailed;
}

}  // namespace

void wait_for_rank_0_report(const RankEnv& env) {
  if (env.rank == 0 || !env.under_agent) return;
  std::this_thread::sleep_for(env.local_rank == 0 ? kRank0ReportLimit : 2 * kRank0ReportLimit);
}

int report_usage_errors(const std::vector<std::string>& sentences, const RankEnv& env) {
  wait_for_rank_0_report(env);
  for (const auto& sentence : sentences) print_line(stderr, "train: " + sentence);
  return kUsage;
}

int exit_early(const EarlyExit& early_exit) {
  const RankEnv env = read_rank_env(process_environment(), /*needs_store=*/false).env;
  if (early_exit.code != 0) wait_for_rank_0_report(env);
  print_text(early_exit.code ? stderr : stdout, early_exit.text);
  return early_exit.code;
}

void say_where_ranks_are_from(const RankEnv& env) {
  if (env.from_task.empty() || env.rank != 0) return;
  const std::string place =
      env.master_addr.empty() ? "" : ", which meet at " + env.master_addr + ":" + std::to_string(env.master_port);
  print_line(stderr, "train: " + env.from_task + " makes this rank 0 of " + std::to_string(env.world_size) + place +
                         "; RANK=0 WORLD_SIZE=1 in the environment gives each process a training of its own.");
}

int run_and_report(const RankEnv& env, const std::function<int()>& work) try {
  return work();
} catch (const UsageError& error) {
  return report_usage_errors({error.what()}, env);
} catch (const Error& error) {
  print_line(stderr, std::string("train: ") + error.what());
  return kFailed;
} catch (const AgreedUsageError& error) {
  return report_usage_errors({first_line(error.what())}, env);
} catch (const AgreedError& error) {
  wait_for_rank_0_report(env);
  print_line(stderr, "train: " + first_line(error.what()));
  return kFailed;
} catch (const std::exception& error) {
  return report(error, env);
}

}  // namespace ddprun::train
