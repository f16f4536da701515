#include "launcher/plan/plan.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "agent/logs/log_layout.h"
#include "launcher/plan/agent_options.h"
#include "launcher/plan/program.h"
#include "launcher/plan/warnings.h"

namespace ddprun::launcher {
namespace fs = std::filesystem;
namespace {

// Nodes that find each other by an endpoint only must use the same name for the job.
std::string run_id_of(const Config& config, const HostInfo& host) {
  if (!config.rdzv_id.empty()) return config.rdzv_id;
  return host.places.several_nodes ? "none" : host.run_id;
}

std::string absolute_or_empty(const std::string& path) {
  std::error_code failed;
  return path.empty() ? "" : fs::absolute(path, failed).lexically_normal().string();
}

std::string log_folder_of(const Config& config, const std::string& run_id) {
  std::error_code failed;
  const std::string folder = config.logs.log_dir == "/dev/null" ? "" : absolute_or_empty(config.logs.log_dir);
  if (config.logs.log_dir.empty() && (config.logs.tee.any() || config.logs.redirects.any()))
    return fs::temp_directory_path(failed).string();  // in a folder there
  if (folder.empty() || config.logs.tree == agent::LogTree::torchrun) return folder;
  return fs::path(folder) / agent::run_folder(config.logs.tree, run_id);
}

}  // namespace

RecordFacts record_facts(const Config& config, const std::string& run_id) {
  const bool several = several_nodes(config);
  return {.by_ssh = !config.hosts.empty(),
          .program = config.program.empty() ? "" : config.program.front(),
          .run_id = run_id,
          .event_log = config.events == EventSink::file ? absolute_or_empty(config.event_file) : "",
          .log_folder = log_folder_of(config, run_id),
          .nodes = std::max(1, static_cast<int>(config.hosts.size())),
          .of_several_nodes = config.hosts.empty() && several,
          .is_first_node = !several || (config.rdzv_backend == Backend::fixed && config.node_rank == 0)};
}

Plan make_plan(const Config& config, const Machine& machine, const SearchContext& programs, const HostInfo& host) {
  const Program program = find_program(config, programs);
  const std::string run_id = run_id_of(config, host);
  Plan plan{.by_python = program.by_python,
            .policy = round_policy(config),
            .warnings = warnings(config, program, host),
            .state_dir = config.state_dir,
            .state_name = config.rdzv_id,
            .preemption_probe = config.preemption_probe,
            .exit = {config.exit_code, config.exit_on_preempt},
            .record = record_facts(config, run_id)};
  plan.options = agent_options(config, machine, program, run_id, host, plan.policy);
  return plan;
}

}  // namespace ddprun::launcher
