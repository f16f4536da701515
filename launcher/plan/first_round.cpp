#include "launcher/plan/first_round.h"

#include <filesystem>

#include "agent/logs/stream_plan.h"

namespace ddprun::launcher {
namespace {

// Where a stream goes, for --dry-run; `file` is the name it would have.
std::vector<std::string> destinations(const agent::LogOptions& logs, agent::StreamBits stream, int local_rank,
                                      const std::string& file) {
  const agent::StreamPlan plan = plan_stream(logs, stream, local_rank, local_rank, !refuses_files(logs));
  switch (plan.way) {
    case agent::StreamPlan::Way::inherited:
      return {"ddprun's own"};
    case agent::StreamPlan::Way::own_file:
      return {file};
    case agent::StreamPlan::Way::discarded:
      return {"/dev/null"};
    case agent::StreamPlan::Way::through_us:
      break;
  }
  std::vector<std::string> out;
  if (plan.console) out.push_back(plan.prefixed ? "ddprun's own, each line with its prefix" : "ddprun's own");
  if (plan.file) out.push_back(file);
  if (out.empty()) out.push_back("ddprun alone, for its report of a failure");
  return out;
}

PlannedWorker planned(const agent::AgentOptions& options, const rendezvous::Seat& seat, const agent::Environment& own,
                      int local_rank) {
  const agent::WorkerCommand& command = options.command;
  const std::string base = options.logs.log_dir.empty() ? "(a temporary folder)" : options.logs.log_dir;
  const std::filesystem::path run = std::filesystem::path(base) / run_folder(options.logs.tree, command.job.run_id);
  const agent::WorkerPlace place{seat.round, seat.restarts, local_rank, local_rank};
  const std::string folder = (run / worker_folder_in_run(options.logs.tree, place)).string();
  const std::string error_file =
      refuses_files(options.logs) ? "" : (run / error_file_in_run(options.logs, place)).string();
  PlannedWorker worker{local_rank, local_rank, command.program, agent::with_local_rank(command.argv, local_rank)};
  agent::Environment all = command.inherited;
  for (auto& [name, value] : worker_variables(command.job, seat, local_rank, error_file, command.inherited))
    all[name] = value;
  all["DDPRUN_JOB"] = "(a mark of the run)";
  if (const int number = agent::channel_number(); number >= 0) all[DDPRUN_CHANNEL_VARIABLE] = std::to_string(number);
  if (seat.master_port == 0) all["MASTER_PORT"] = "(a free one)";
  if (options.meeting)
    for (const char* name : {"RANK", "WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE",
                             "MASTER_ADDR", "MASTER_PORT"})
      all[name] = "(known when the nodes have met)";
  worker.environment = difference(own, all);
  if (const auto place = static_cast<std::size_t>(local_rank); place < command.bindings.size()) {
    const agent::Binding& binding = command.bindings[place];
    worker.cpus = binding.cpus;
    worker.memory_nodes = agent::cpu_list(binding.memory_nodes);
  }
  worker.stdin_from = local_rank == 0 ? "ddprun's own" : "/dev/null";
  worker.stdout_to = destinations(options.logs, agent::kStdout, local_rank, folder + "/stdout.log");
  worker.stderr_to = destinations(options.logs, agent::kStderr, local_rank, folder + "/stderr.log");
  return worker;
}

}  // namespace

std::vector<PlannedWorker> first_round(const agent::AgentOptions& options, const agent::Environment& own) {
  rendezvous::Round round{.number = 1, .master_host = options.master_host, .master_port = options.master_port};
  round.nodes.push_back({.workers = options.workers, .role = options.role});
  const rendezvous::Seat seat = seats(round).front();
  std::vector<PlannedWorker> plan;
  for (int local_rank = 0; local_rank < options.workers; ++local_rank)
    plan.push_back(planned(options, seat, own, local_rank));
  return plan;
}

}  // namespace ddprun::launcher
