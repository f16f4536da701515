#include "launcher/config.h"

#include <charconv>

namespace ddprun {
namespace {

constexpr int kWorkersMax = 4096;  // far above any node; a typo must not fork until the machine stands still
constexpr double kGraceMaxS = 86'400;

std::optional<int> whole_number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::string nnodes_problem(const std::string& nnodes) {
  const std::size_t colon = nnodes.find(':');
  const auto min = whole_number(nnodes.substr(0, colon));
  const auto max = colon == std::string::npos ? min : whole_number(nnodes.substr(colon + 1));
  if (!min || !max || *min < 1 || *max < *min)
    return "--nnodes is '" + nnodes + "', which is neither a number of nodes nor MIN:MAX.";
  if (*max > 1)
    return "--nnodes is " + nnodes +
           ": jobs of several nodes are not supported yet; leave it out for this machine alone.";
  return {};
}

std::string nproc_problem(const std::string& nproc, const Machine& machine) {
  if (nproc == "gpu" && machine.gpus == 0)
    return "--nproc-per-node is 'gpu', but this machine shows no NVIDIA device; pass a number, or auto.";
  const auto count = worker_count(nproc, machine);
  if (!count) return "--nproc-per-node is '" + nproc + "'; it takes a number from 1 up, cpu, gpu, or auto.";
  if (*count > kWorkersMax)
    return "--nproc-per-node is " + nproc + ", more than the " + std::to_string(kWorkersMax) +
           " that one node may have.";
  return {};
}

bool fits_a_path(const std::string& run_id) {
  return run_id.find('/') == std::string::npos && run_id != "." && run_id != ".." && run_id.size() < 200;
}

}  // namespace

std::optional<int> worker_count(const std::string& nproc_per_node, const Machine& machine) {
  if (nproc_per_node == "cpu") return machine.cpus;
  if (nproc_per_node == "gpu") return machine.gpus > 0 ? std::optional(machine.gpus) : std::nullopt;
  if (nproc_per_node == "auto") return machine.gpus > 0 ? machine.gpus : machine.cpus;
  const auto number = whole_number(nproc_per_node);
  return number && *number > 0 ? number : std::nullopt;
}

std::vector<std::string> problems(const Config& config, const Machine& machine) {
  std::vector<std::string> out;
  const auto unless = [&](bool fine, const std::string& sentence) {
    if (!fine) out.push_back(sentence);
  };
  const std::string nnodes = nnodes_problem(config.nnodes), nproc = nproc_problem(config.nproc_per_node, machine);
  unless(nnodes.empty(), nnodes);
  unless(nproc.empty(), nproc);
  unless(config.max_restarts >= 0,
         "--max-restarts is " + std::to_string(config.max_restarts) + "; it takes a number from 0 up.");
  unless(config.master_port >= 0 && config.master_port <= 65535,
         "--master-port is " + std::to_string(config.master_port) +
             "; it takes a number up to 65535, 0 for any free port.");
  unless(config.stop_grace_s >= 0 && config.stop_grace_s <= kGraceMaxS,
         "--stop-grace is " + std::to_string(config.stop_grace_s) + "; it takes seconds from 0 up to a day.");
  unless(fits_a_path(config.rdzv_id),
         "--rdzv-id is '" + config.rdzv_id +
             "'; it names a folder of logs, so it takes no '/' and at most 199 characters.");
  unless(!(config.no_python && config.module), "--no-python and --module exclude each other: leave out one of them.");
  unless(!config.program.empty(), "No program is named: ddprun [options] PROGRAM [its arguments].");
  return out;
}

}  // namespace ddprun
