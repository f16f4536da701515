#include "launcher/launch.h"

#include <net/if.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "agent/agent.h"
#include "agent/job_cookie.h"
#include "launcher/dry_run.h"
#include "launcher/exit_codes.h"
#include "launcher/outside.h"
#include "launcher/program.h"
#include "rendezvous/error.h"

namespace ddprun {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// A random UUID (RFC 9562, version 4), as torchrun gives a standalone job.
std::string random_run_id() {
  unsigned char b[16] = {};
  if (getrandom(b, sizeof b, 0) != sizeof b) throw Error("cannot make a run id", "no random bytes", "Pass --rdzv-id.");
  b[6] = static_cast<unsigned char>((b[6] & 0x0f) | 0x40);
  b[8] = static_cast<unsigned char>((b[8] & 0x3f) | 0x80);
  char text[40];
  std::snprintf(text, sizeof text, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return text;
}

FileKind kind_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {true, S_ISDIR(status.st_mode), access(path.c_str(), X_OK) == 0};
}

Surroundings surroundings() {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return {variable("PATH"), self.parent_path().string(), variable("PYTHON_EXEC"), kind_of};
}

int visible_gpus() {
  int found = 0;
  while (access(("/dev/nvidia" + std::to_string(found)).c_str(), F_OK) == 0) ++found;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    const std::string list = visible;
    const auto named = list.empty() || list == "-1" ? 0 : 1 + std::count(list.begin(), list.end(), ',');
    return std::min(found, static_cast<int>(named));
  }
  return found;
}

std::vector<std::string> network_interfaces() {
  std::vector<std::string> names;
  struct if_nameindex* all = if_nameindex();
  for (auto* one = all; one && one->if_index != 0; ++one) names.push_back(one->if_name);
  if (all) if_freenameindex(all);
  return names;
}

// What workers inherit: ddprun's own environment and what the configuration file adds.
Environment inherited(const Config& config) {
  Environment out = own_environment();
  for (const auto& [name, value] : config.env) out[name] = value;
  return out;
}

std::string host_for_workers(const Config& config) {
  const std::string named = master_host(config);
  return named.empty() ? kLoopback : named;
}

AgentOptions agent_options(const Config& config, const Machine& machine, int keeper_pidfd) {
  Program program = find_program(config, surroundings());
  AgentOptions options;
  options.workers = worker_count(config.nproc_per_node, machine).value();
  const std::string run_id = config.rdzv_id.empty() ? random_run_id() : config.rdzv_id;
  const JobIdentity job{run_id, config.max_restarts, to_string(own_cookie(run_id))};
  options.command = {config.program.front(), program.path, program.argv, inherited(config), job};
  options.named = !config.rdzv_id.empty();
  options.stop.stop_grace = config.stop_grace;
  options.master_host = host_for_workers(config);
  options.store_address = options.master_host == kLoopback ? kLoopback : "";  // nobody else's business by default
  options.master_port = static_cast<std::uint16_t>(master_port(config));
  options.logs.log_dir = config.log_dir;
  options.keeper_pidfd = keeper_pidfd;
  options.verbose = config.verbose;
  return options;
}

PlannedWorker planned(const Config& config, const Program& program, const Round& round, int local_rank) {
  const JobIdentity job{config.rdzv_id.empty() ? "(a random one)" : config.rdzv_id, config.max_restarts};
  PlannedWorker worker{local_rank, local_rank, program.path, program.argv};
  Environment all = inherited(config);
  for (auto& [name, value] : worker_variables(job, round, round.nodes.front(), local_rank, "(a file of its own)", all))
    all[name] = value;
  if (round.master_port == 0) all["MASTER_PORT"] = "(a free one)";
  worker.environment = difference(own_environment(), all);
  worker.stdin_from = local_rank == 0 ? "ddprun's own" : "/dev/null";
  worker.stdout_to = {"ddprun's own"}, worker.stderr_to = {"ddprun's own"};
  if (!config.log_dir.empty() && config.log_dir != "/dev/null") {
    const std::string folder = config.log_dir + "/" + job.run_id + "/round-1/rank-" + std::to_string(local_rank);
    worker.stdout_to.push_back(folder + "/stdout.log");
    worker.stderr_to.push_back(folder + "/stderr.log");
  }
  return worker;
}

int exit_code(const JobResult& result) {
  const Outcome& outcome = result.outcome;
  switch (outcome.verdict) {
    case Verdict::success:
      return kSuccess;
    case Verdict::worker_failed:
      return kWorkerFailed;
    case Verdict::interrupted:
      return outcome.signal != SIGINT && result.saved ? kRequeue : kInterrupted + outcome.signal;
  }
  return kInternalError;
}

}  // namespace

Machine this_machine() {
  cpu_set_t mask;
  const int cpus = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
  return {std::max(cpus, 1), visible_gpus(), network_interfaces};
}

std::string dry_run(const Config& config, const Machine& machine) {
  const Program program = find_program(config, surroundings());
  const int workers = worker_count(config.nproc_per_node, machine).value();
  const Round round{1, {{0, workers, 0}}, host_for_workers(config), static_cast<std::uint16_t>(master_port(config)), 0};
  std::vector<PlannedWorker> plan;
  for (int local_rank = 0; local_rank < workers; ++local_rank)
    plan.push_back(planned(config, program, round, local_rank));
  return dry_run_text(plan);
}

int launch(const Config& config, const Machine& machine, int keeper_pidfd) {
  RoundPolicy policy;
  policy.restarts.max_restarts = config.max_restarts;
  return exit_code(Agent(agent_options(config, machine, keeper_pidfd), policy).run());
}

}  // namespace ddprun
