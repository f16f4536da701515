#include "launcher/job.h"

#include <algorithm>

#include "agent/exit_status.h"
#include "rendezvous/error.h"

namespace ddprun {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::string names_of(const std::vector<int>& signals) {
  std::string out;
  for (const int signal : signals) out += (out.empty() ? "" : ",") + signal_name(signal);
  return out;
}

std::optional<int> omp_threads(const Config& config, const Machine& machine, int workers) {
  if (config.omp_threads != kAutoThreads) return config.omp_threads;
  return std::max(1, machine.cpus / workers);
}

// What workers inherit: ddprun's own environment without the job's secret, and what the configuration file adds.
Environment inherited(const Config& config, const Place& place) {
  Environment out = place.environment;
  out.erase("DDPRUN_TOKEN");
  for (const auto& [name, value] : config.env) out[name] = value;
  return out;
}

std::string host_for_workers(const Config& config, const Place& place) {
  if (const std::string named = master_host(config); !named.empty()) return named;
  return config.interface.empty() ? kLoopback : place.interface_address;
}

LogOptions log_options(const Config& config, const Place& place) {
  LogOptions logs;
  logs.log_dir = config.log_dir;
  logs.tree = config.log_layout;
  logs.redirects = config.redirects;
  logs.tee = config.tee;
  logs.console_ranks = config.local_ranks_filter;
  logs.stdout_filters = config.stdout_filters;
  logs.stderr_filters = config.stderr_filters;
  logs.prefix = config.log_prefix;
  logs.size_max = config.log_size_bytes_max;
  logs.size_keep = config.log_keep;
  const auto no_colour = place.environment.find("NO_COLOR");
  logs.colour = no_colour == place.environment.end() || no_colour->second.empty();
  logs.role = config.role;
  logs.host = place.host;
  return logs;
}

StopScope stop_scope(const Config& config, const Program& program) {
  if (config.stop_scope == ScopeChoice::automatic) return program.wrapper ? StopScope::group : StopScope::rank;
  return config.stop_scope == ScopeChoice::group ? StopScope::group : StopScope::rank;
}

std::string variable(const Place& place, const char* name) {
  const auto found = place.environment.find(name);
  return found == place.environment.end() ? std::string() : found->second;
}

std::string event_log(const Config& config) {
  if (config.events == EventSink::file) return "file:" + config.event_file;
  return config.events == EventSink::console ? "console" : "null";
}

std::vector<int> ending_signals(const Config& config) {
  std::vector<int> signals = config.signals_to_handle;
  signals.insert(signals.end(), config.preempt_signals.begin(), config.preempt_signals.end());
  return signals;
}

void check_devices(const Config& config, const Environment& environment, int workers) {
  if (!config.virtual_local_rank || virtual_device(environment, workers - 1)) return;
  throw UsageError("cannot give every worker a device of its own (--virtual-local-rank)",
                   "CUDA_VISIBLE_DEVICES is '" + environment.at("CUDA_VISIBLE_DEVICES") + "', too short for " +
                       std::to_string(workers) + " workers",
                   "Name as many devices as workers, or pass a smaller --nproc-per-node.");
}

}  // namespace

Credentials credentials(const Config& config) {
  if (config.token) return *config.token;
  if (config.tls_cert.empty()) return NoCredentials{};
  return CertificateFiles{config.tls_cert, config.tls_key, config.tls_ca};
}

AgentOptions job_options(const Config& config, const Machine& machine, const Program& program,
                         const std::string& run_id, const Place& place) {
  AgentOptions options;
  options.workers = worker_count(config.nproc_per_node, machine).value();
  options.role = config.role;
  options.command = {config.program.front(), program.path, program.argv, inherited(config, place), {run_id}};
  options.command.core_dumps = config.core_dumps;
  options.command.bindings = place.bindings;
  options.cgroup = config.cgroup;
  check_devices(config, options.command.inherited, options.workers);
  JobIdentity& job = options.command.job;
  job.max_restarts = config.max_restarts;
  job.signals_to_handle = names_of(config.signals_to_handle);
  job.omp_threads = omp_threads(config, machine, options.workers);
  job.interface = config.interface;
  job.virtual_local_rank = config.virtual_local_rank;
  options.named = !config.rdzv_id.empty();
  options.stop.stop_grace = config.stop_grace;
  options.stop.peer_exit_timeout = config.peer_exit_timeout;
  options.stop_scope = stop_scope(config, program);
  options.ending_signals = ending_signals(config);
  options.preempt_signals = config.preempt_signals;
  options.max_run = config.max_run;
  options.master_host = host_for_workers(config, place);
  options.store_address = options.master_host == kLoopback ? kLoopback : "";  // nobody else's business by default
  options.master_port = static_cast<std::uint16_t>(master_port(config));
  options.logs = log_options(config, place);
  options.log_level = log_level(variable(place, "LOGLEVEL"), config.verbose);
  options.event_log = event_log(config);
  if (variable(place, "TORCHELASTIC_ENABLE_FILE_TIMER") == "1")
    options.timer_file = variable(place, "TORCHELASTIC_TIMER_FILE");
  options.own_error_file = variable(place, "TORCHELASTIC_ERROR_FILE");
  options.rdzv_backend = config.rdzv_backend == Backend::fixed && !config.standalone ? "static" : "c10d";
  return options;
}

}  // namespace ddprun
