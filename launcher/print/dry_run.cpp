#include "launcher/print/dry_run.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "agent/process/groups/numa.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kLabelWidth = 14;

std::string labelled(const char* label, const std::string& text) {
  std::string out = std::string("  ") + label;
  out.resize(kLabelWidth, ' ');
  return out + text + "\n";
}

std::string command_line(const PlannedWorker& worker) {
  std::string out;
  for (const std::string& word : worker.argv) out += (out.empty() ? "" : " ") + shell_word(word);
  return out;
}

std::string variables(const EnvironmentDifference& environment) {
  std::string out;
  for (const auto& [name, value] : environment)
    out += labelled(out.empty() ? "environment" : "", value ? name + "=" + shell_word(*value) : name + " is removed");
  return out.empty() ? labelled("environment", "as ddprun's own") : out;
}

std::string described(const PlannedWorker& worker) {
  std::string out = "rank " + std::to_string(worker.rank) + " (local rank " + std::to_string(worker.local_rank) + ")\n";
  out += labelled("runs", command_line(worker));
  if (worker.argv.empty() || worker.argv.front() != worker.program) out += labelled("program", worker.program);
  out += variables(worker.environment);
  out += labelled("CPUs", worker.cpus.empty() ? "as ddprun's own" : agent::cpu_list(worker.cpus));
  if (!worker.memory_nodes.empty()) out += labelled("memory", "node " + worker.memory_nodes);
  out += labelled("stdin", worker.stdin_from);
  out += labelled("stdout", listed(worker.stdout_to, "and"));
  out += labelled("stderr", listed(worker.stderr_to, "and"));
  return out;
}

}  // namespace

EnvironmentDifference difference(const agent::Environment& own, const agent::Environment& workers) {
  EnvironmentDifference out;
  for (const auto& [name, value] : workers)
    if (const auto found = own.find(name); found == own.end() || found->second != value) out[name] = value;
  for (const auto& [name, ignored] : own)
    if (!workers.count(name)) out[name] = std::nullopt;
  return out;
}

std::string dry_run_text(const std::vector<PlannedWorker>& workers) {
  std::string out;
  for (const PlannedWorker& worker : workers) out += (out.empty() ? "" : "\n") + described(worker);
  return out;
}

}  // namespace ddprun::launcher
