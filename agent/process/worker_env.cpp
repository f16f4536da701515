#include "agent/process/worker_env.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ddprun::agent {
namespace {

std::string inherited_or(const Environment& inherited, const std::string& name, const std::string& otherwise) {
  const auto found = inherited.find(name);
  return found == inherited.end() ? otherwise : found->second;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string entry(const std::string& name, const std::string& value) {
  std::string out;
  out.reserve(name.size() + 1 + value.size());
  ((out += name) += '=') += value;
  return out;
}

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

constexpr const char* kCuda = "CUDA_VISIBLE_DEVICES";
constexpr const char* kHip = "HIP_VISIBLE_DEVICES";
constexpr const char* kRocr = "ROCR_VISIBLE_DEVICES";
constexpr const char* kLevelZero = "ZE_AFFINITY_MASK";

// For options that few jobs use.
void add_choices(Environment& env, const JobIdentity& job, int workers, const Environment& inherited) {
  if (job.omp_threads)
    env["OMP_NUM_THREADS"] = std::to_string(*job.omp_threads);
  else if (workers > 1)
    env["OMP_NUM_THREADS"] = inherited_or(inherited, "OMP_NUM_THREADS", "1");
  if (!job.interface.empty()) env["GLOO_SOCKET_IFNAME"] = env["NCCL_SOCKET_IFNAME"] = job.interface;
}

void add_device(Environment& env, const JobIdentity& job, int local_rank, const Environment& inherited) {
  if (job.virtual_local_rank) {
    env["LOCAL_RANK"] = "0";
    const std::string device = virtual_device(inherited, local_rank).value_or(""), from = devices_variable(inherited);
    if (from == kLevelZero) env[kLevelZero] = device;
    if (from != kLevelZero) env[kCuda] = device;
    if (from == kHip || from == kRocr) env[kHip] = device;
  }
}

}  // namespace

Environment round_variables(const JobIdentity& job, const rendezvous::Seat& seat, const Environment& inherited) {
  Environment env;
  const auto set = [&](const char* name, std::string value) { env.emplace(name, std::move(value)); };
  set("WORLD_SIZE", std::to_string(seat.world_size));
  set("LOCAL_WORLD_SIZE", std::to_string(seat.workers));
  set("GROUP_RANK", std::to_string(seat.group_rank));
  set("GROUP_WORLD_SIZE", std::to_string(seat.group_world_size));
  set("ROLE_NAME", seat.role);
  set("ROLE_WORLD_SIZE", std::to_string(seat.role_world_size));
  set("MASTER_ADDR", seat.master_host);
  set("MASTER_PORT", std::to_string(seat.master_port));
  set("TORCHELASTIC_RESTART_COUNT", std::to_string(seat.restarts));
  set("TORCHELASTIC_MAX_RESTARTS", std::to_string(job.max_restarts));
  set("TORCHELASTIC_RUN_ID", job.run_id);
  set("TORCHELASTIC_USE_AGENT_STORE", "True");  // every rank is a client of the store in the agent
  set("TORCHELASTIC_SIGNALS_TO_HANDLE", job.signals_to_handle);
  set("DDPRUN_ROUND", std::to_string(seat.round));
  env.merge(common_variables(job, seat.workers, inherited));  // keeps what is there
  return env;
}

Environment rank_variables(const JobIdentity& job, const rendezvous::Seat& seat, int local_rank,
                           const std::string& error_file, const Environment& inherited) {
  Environment env{
      {"RANK", std::to_string(seat.first_rank + local_rank)},
      {"LOCAL_RANK", std::to_string(local_rank)},
      {"ROLE_RANK", std::to_string(seat.first_role_rank + local_rank)},
      {"TORCHELASTIC_ERROR_FILE", error_file},
  };
  add_device(env, job, local_rank, inherited);
  return env;
}

Environment worker_variables(const JobIdentity& job, const rendezvous::Seat& seat, int local_rank,
                             const std::string& error_file, const Environment& inherited) {
  Environment env = rank_variables(job, seat, local_rank, error_file, inherited);
  env.merge(round_variables(job, seat, inherited));
  return env;
}

Environment common_variables(const JobIdentity& job, int workers, const Environment& inherited) {
  Environment env{
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", inherited_or(inherited, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")},
      {"DDPRUN_JOB", job.cookie},
  };
  add_choices(env, job, workers, inherited);
  env.insert(job.extra.begin(), job.extra.end());
  return env;
}

const char* devices_variable(const Environment& inherited) {
  if (!inherited_or(inherited, kHip, "").empty()) return kHip;
  if (inherited.contains(kCuda)) return kCuda;
  for (const char* other : {kRocr, kLevelZero})
    if (!inherited_or(inherited, other, "").empty()) return other;
  return kCuda;
}

std::optional<std::string> virtual_device(const Environment& inherited, int local_rank) {
  const auto found = inherited.find(devices_variable(inherited));
  if (found == inherited.end()) return std::to_string(local_rank);
  std::string_view list = found->second;
  for (int i = 0; i < local_rank; ++i) {
    const std::size_t comma = list.find(',');
    if (comma == std::string_view::npos) return {};
    list.remove_prefix(comma + 1);
  }
  if (found->first == kRocr) return std::to_string(local_rank);
  return std::string(trimmed(list.substr(0, list.find(','))));
}

std::vector<std::string> with_local_rank(std::vector<std::string> arguments, int local_rank) {
  static const std::string macro = "${local_rank}";
  const std::string number = std::to_string(local_rank);
  for (std::string& argument : arguments)
    for (std::size_t at = 0; (at = argument.find(macro, at)) != std::string::npos; at += number.size())
      argument.replace(at, macro.size(), number);
  return arguments;
}

std::vector<std::string> entries_of(const Environment& variables) {
  std::vector<std::string> entries;
  entries.reserve(variables.size());
  for (const auto& [name, value] : variables) entries.push_back(entry(name, value));
  return entries;
}

// Both are sorted.
std::vector<std::string> without(std::vector<std::string> entries, const Environment& names) {
  auto name = names.begin();
  std::erase_if(entries, [&](const std::string& one) {
    const std::string_view own = name_of(one);
    while (name != names.end() && name->first < own) ++name;
    return name != names.end() && name->first == own;
  });
  return entries;
}

std::vector<std::string> merged(const Environment& inherited, const Environment& own) {
  std::vector<std::string> out;
  out.reserve(inherited.size() + own.size());
  auto theirs = inherited.begin();
  for (const auto& [name, value] : own) {
    for (; theirs != inherited.end() && theirs->first < name; ++theirs)
      out.push_back(entry(theirs->first, theirs->second));
    if (theirs != inherited.end() && theirs->first == name) ++theirs;
    out.push_back(entry(name, value));
  }
  for (; theirs != inherited.end(); ++theirs) out.push_back(entry(theirs->first, theirs->second));
  return out;
}

}  // namespace ddprun::agent
