#include "launcher/plan/agent_options.h"

#include <algorithm>
#include <filesystem>

#include "agent/logs/stream_plan.h"
#include "agent/process/exit_status.h"
#include "launcher/config/options.h"
#include "launcher/config/push_targets.h"
#include "launcher/config/values.h"
#include "launcher/scheduler/scheduler.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/version.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
// A larger store is not plausible, and requests in progress may use as much again: the workers get the rest.
constexpr std::uint64_t kStoreShare = 8;

std::optional<int> omp_threads(const Config& config, const Machine& machine, int workers) {
  if (config.omp_threads != kAutoThreads) return config.omp_threads;
  return std::max(1, machine.cpus / workers);
}

// What workers inherit: ddprun's own environment without the job's secret, plus the configuration file's variables.
// Of a ddprun that a worker of another one has started, the outer one's entries go first.
void add_python_folder(const Config& config, const std::string& folder, agent::Environment& out) {
  const std::string watch = folder + "/ddprun/_watch";
  if (out.erase("DDPRUN_WATCH") != 0 && out["PYTHONPATH"].starts_with(watch + ":"))
    out["PYTHONPATH"].erase(0, watch.size() + 1);
  if (folder.empty() && config.watch != WatchMode::off)
    throw UsageError("cannot watch Python scripts (--watch)", "share/ddprun/python is not beside this ddprun",
                     "Install ddprun with its files, as by cmake --install or its wheel.");
  if (folder.empty()) return;
  std::string& path = out["PYTHONPATH"];
  const bool has_it = path == folder || path.ends_with(":" + folder);
  if (!has_it) path += (path.empty() ? "" : ":") + folder;  // after the user's own, which thereby stay as they are
  if (config.watch == WatchMode::off) return;
  out["DDPRUN_WATCH"] = config.watch == WatchMode::see ? "see" : "act";
  path = watch + ":" + path;  // first: one sitecustomize is imported, and ours goes on with the other
}

agent::Environment inherited(const Config& config, const HostInfo& host) {
  agent::Environment out = host.environment;
  out.erase(rendezvous::kTokenVariable);
  for (const auto& [name, value] : config.env) out[name] = value;
  add_python_folder(config, host.python_folder, out);
  return out;
}

// With several nodes: empty if the address is to be taken from how the others reach us.
std::string own_address(const Config& config, const HostInfo& host) {
  return config.local_addr.empty() ? host.interface_address : config.local_addr;
}

std::string host_for_workers(const Config& config, const HostInfo& host) {
  if (host.places.several_nodes) return own_address(config, host);
  if (host.named_is_elsewhere) return kLoopback;
  if (const std::string named = host.places.master_host; !named.empty()) return named;
  return config.interface.empty() ? kLoopback : host.interface_address;
}

agent::LogOptions log_options(const Config& config, const HostInfo& host) {
  agent::LogOptions logs = config.logs;
  const auto no_colour = host.environment.find("NO_COLOR");
  logs.colour = no_colour == host.environment.end() || no_colour->second.empty();
  logs.role = config.role;
  logs.host = host.name;
  return logs;
}

std::string variable(const HostInfo& host, const char* name) {
  const auto found = host.environment.find(name);
  return found == host.environment.end() ? std::string() : found->second;
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

// Those that ask for an end in time to save: Ctrl-C and a lost terminal do not. SIGTERM always does, as it is what
// ddprun itself sends to workers that are to save.
std::vector<int> notice_signals(const Config& config) {
  std::vector<int> signals{SIGTERM};
  for (const int signal : config.preempt_signals)
    if (signal != SIGTERM) signals.push_back(signal);
  return signals;
}

std::string numbers(const std::vector<int>& signals) {
  std::string text;
  for (const int signal : signals) text += (text.empty() ? "" : ",") + std::to_string(signal);
  return text;
}

void check_prefork(const Config& config, const Program& program) {
  for (const auto& [name, value] :
       {std::pair("--prefork-import", &config.prefork_import), {"--prefork-learn", &config.prefork_learn}})
    if (!value->empty() && !program.by_python)
      throw UsageError("cannot import Python modules before forking (" + std::string(name) + ")",
                       config.program.front() + " is no Python program", "Leave it out.");
}

void check_devices(const Config& config, const agent::Environment& environment, int workers) {
  if (!config.virtual_local_rank || agent::virtual_device(environment, workers - 1)) return;
  const char* variable = agent::devices_variable(environment);
  throw UsageError("cannot give every worker a device of its own (--virtual-local-rank)",
                   std::string(variable) + " is '" + environment.at(variable) + "', too short for " +
                       std::to_string(workers) + " workers",
                   "Name as many devices as workers, or pass a smaller --nproc-per-node.");
}

constexpr int kWorkersAdded = 16;  // by users while the job runs

// What is laid out once for each worker limits them.
int workers_most(const Config& config, const Machine& machine, const agent::WorkerCommand& command, int workers) {
  if (!command.bindings.empty()) return workers;
  int most = std::min(workers + kWorkersAdded, rendezvous::kWorkersMax);
  const bool counts_gpus =
      config.nproc_per_node.by != WorkerCount::number && config.nproc_per_node.by != WorkerCount::cpus;
  if (counts_gpus && machine.gpus() > 0) most = std::min(most, machine.gpus());
  if (config.virtual_local_rank)
    while (most > workers && !agent::virtual_device(command.inherited, most - 1)) --most;
  return std::max(most, workers);
}

}  // namespace

namespace {

Duration seconds_of(const Config& config, const char* key, Duration otherwise) {
  const auto found = config.rdzv_conf.find(key);
  return found == config.rdzv_conf.end() ? otherwise : std::chrono::seconds(std::stol(found->second));
}

rendezvous::Locality whose_first(const HostInfo& host) {
  return host.whose_meeting_places.empty() ? rendezvous::Locality::unknown : host.whose_meeting_places.front();
}

// Whether the first place is this node's: by --rdzv-conf is_host, as torchrun; else by the owner of its address, or by
// rank 0 of a static job.
rendezvous::Locality host_of_first(const Config& config, const HostInfo& host) {
  const auto ours_if = [](bool ours) { return ours ? rendezvous::Locality::local : rendezvous::Locality::remote; };
  if (const auto said = config.rdzv_conf.find("is_host"); said != config.rdzv_conf.end())
    return ours_if(std::get<bool>(settings::read_flag(said->second)));
  if (config.rdzv_backend != Backend::fixed) return whose_first(host);
  return ours_if(config.node_rank == 0);
}

// A sentence if no place is this node's: if no node has the address, every node reports it.
std::string address_problem(const agent::Meeting& meeting, const HostInfo& host) {
  const auto& whose = host.whose_meeting_places;
  if (whose.empty() || std::count(whose.begin(), whose.end(), rendezvous::Locality::remote) != std::ssize(whose))
    return {};
  if (meeting.places.size() > 1) return "none of the job's endpoints is an address of " + host.name;
  return meeting.places.front().host + " is not an address of " + host.name;
}

void add_places(const Config& config, const HostInfo& host, agent::Meeting& out) {
  for (const MeetingPlace& where : host.places.meeting)
    out.places.push_back({where.host, static_cast<std::uint16_t>(where.port)});
  out.whose = host.whose_meeting_places;
  out.whose.resize(out.places.size(), rendezvous::Locality::unknown);
  out.whose.front() = host_of_first(config, host);
  out.translated =
      out.whose.front() == rendezvous::Locality::local && whose_first(host) == rendezvous::Locality::remote;
  out.address_problem = address_problem(out, host);
  out.others_may_host = config.rdzv_backend != Backend::fixed;
}

agent::Meeting meeting(const Config& config, const Program& program, const std::string& run_id, const HostInfo& host) {
  agent::Meeting out;
  if (config.etcd)
    out.etcd = config.etcd, out.address = own_address(config, host);
  else
    add_places(config, host, out);
  out.control_port = static_cast<std::uint16_t>(config.control_port);
  out.run_id = run_id;
  out.name = host.name;
  out.fingerprint = {rendezvous::kControlProtocol, rendezvous::kControlProtocolSince, text_of(config.nnodes),
                     std::filesystem::path(program.path).filename().string()};
  out.credentials = credentials(config);
  return out;
}

std::string backend_in_events(const Config& config) {
  if (config.etcd) return "etcd";
  return config.rdzv_backend == Backend::fixed && !config.standalone ? "static" : "c10d";
}

// Parsed as by torchrun: anything but a positive number disables it.
std::optional<Duration> stuck_limit(const std::string& seconds) {
  constexpr double kLongest = 1e9;
  const char* const begin = seconds.c_str();
  char* end = nullptr;
  const double value = std::strtod(begin, &end);
  if (end == begin || *end != '\0' || !(value > 0)) return {};
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(value, kLongest)));
}

}  // namespace

rendezvous::RoundPolicy round_policy(const Config& config) {
  rendezvous::RoundPolicy policy = config.rounds;
  if (!several_nodes(config)) return policy;
  policy.nodes_min = config.nnodes.least;
  policy.nodes_max = config.nnodes.most;
  policy.fixed_ranks = config.rdzv_backend == Backend::fixed;
  policy.join_timeout = seconds_of(config, "join_timeout", policy.join_timeout);
  policy.last_call = seconds_of(config, "last_call_timeout", policy.last_call);
  return policy;
}

rendezvous::Credentials credentials(const Config& config) {
  if (config.token) return *config.token;
  if (config.certificates) return *config.certificates;
  return rendezvous::NoCredentials{};
}

namespace {

// The working folder, where programs write by default, and those that ddprun writes to.
std::vector<std::string> folders_written(const Config& config) {
  std::error_code unknown;
  std::vector<std::string> out{std::filesystem::current_path(unknown).string()};
  for (const std::string& folder : {config.logs.log_dir, config.state_dir})
    if (!folder.empty() && folder != "/dev/null") out.push_back(folder);
  return out;
}

}  // namespace

agent::AgentOptions agent_options(const Config& config, const Machine& machine, const Program& program,
                                  const std::string& run_id, const HostInfo& host,
                                  const rendezvous::RoundPolicy& policy) {
  agent::AgentOptions options;
  options.workers = worker_count(config.nproc_per_node, machine).value();
  options.role = config.role;
  if (config.scheduler == SchedulerChoice::automatic) options.step = step_of(host.environment);
  options.command = {config.program.front(), program.path, program.argv, inherited(config, host), {run_id}};
  for (const std::string& word : config.program)
    options.command.typed += (options.command.typed.empty() ? "" : " ") + shell_word(word);
  options.command.core_dumps = config.core_dumps;
  options.command.bindings = host.bindings;
  options.workers_most = workers_most(config, machine, options.command, options.workers);
  options.cgroup = config.cgroup;
  if (config.prefork) {
    check_prefork(config, program);
    const std::string& learned = config.prefork_learn;
    options.prefork = agent::Prefork{program.by_python, config.prefork_import,
                                     learned.empty() ? "" : std::filesystem::absolute(learned).string()};
  }
  options.memory_snapshots = config.memory_snapshots;
  options.command.in_process = config.in_process;
  check_devices(config, options.command.inherited, options.workers);
  agent::JobIdentity& job = options.command.job;
  job.max_restarts = policy.restarts.max_restarts;
  job.signals_to_handle = signal_names(config.signals_to_handle);
  job.omp_threads = omp_threads(config, machine, options.workers);
  job.interface = config.interface;
  job.virtual_local_rank = config.virtual_local_rank;
  options.named = !config.rdzv_id.empty();
  options.requeues = config.requeues;
  options.stop = config.stop;
  options.stop_scope = config.stop_scope;
  options.ending_signals = ending_signals(config);
  options.preempt_signals = config.preempt_signals;
  options.stop.notice_signals = notice_signals(config);
  job.preempt_signals = numbers(options.stop.notice_signals);
  options.max_run = config.max_run;
  options.rules = policy.rules;
  options.state.excluded = config.exclude_file;
  options.health_check = config.health_check;
  options.machine_limits = config.machine_limits;
  options.hang_limits = config.hang_limits;
  options.allow_chaos = policy.allow_chaos;
  options.watch_stragglers = policy.stragglers != rendezvous::StragglerPolicy::off;
  options.version = version();
  if (const bool placed = !config.metrics.address.empty(); placed || config.metrics.page) {
    options.metrics = config.metrics;
    if (!placed) options.metrics->address = kLoopback;
  }
  options.otlp = otlp_options(config.otlp, host.environment);
  options.kubeflow = kubeflow_options(host.environment);
  options.folders = folders_written(config);
  options.progress_after = policy.restarts.progress_after;
  options.master_host = host_for_workers(config, host);
  options.store_address = options.master_host == kLoopback ? kLoopback : "";  // closed to other machines by default
  options.master_port = static_cast<std::uint16_t>(host.places.several_nodes ? 0 : host.places.master_port);
  options.store_ports = config.store_ports;
  options.store_bytes_max = config.store_memory.value_or(machine.memory_bytes / kStoreShare);
  options.store_for_any_user = config.store_users == StoreUsers::any;
  if (host.places.several_nodes) {
    options.meeting = meeting(config, program, run_id, host);
    options.store_through_agents = options.meeting->translated;
    options.join_timeout = policy.join_timeout;
    options.store_proxy =
        config.store_proxy || !std::holds_alternative<rendezvous::NoCredentials>(options.meeting->credentials);
    if (config.rdzv_backend == Backend::fixed || in_force(config.settings, "node-rank"))
      options.requested_rank = config.node_rank;
  }
  options.logs = log_options(config, host);
  options.logs.keeps_output = host.places.several_nodes;
  if (options.logs.keeps_output || agent::keeps_logs(options.logs))
    options.logs.kept = std::make_shared<agent::KeptOutput>();
  if (!config.output_rules.empty() || !config.output_metrics.empty())
    options.logs.monitor = std::make_shared<agent::OutputMonitor>(config.output_rules, config.output_metrics);
  options.log_level = agent::log_level(variable(host, "LOGLEVEL"), config.verbose);
  options.event_log = event_log(config);
  if (variable(host, "TORCHELASTIC_ENABLE_FILE_TIMER") == "1")
    options.timer_file = variable(host, "TORCHELASTIC_TIMER_FILE");
  options.stuck_limit = stuck_limit(variable(host, "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT"));
  options.own_error_file = variable(host, "TORCHELASTIC_ERROR_FILE");
  options.rdzv_backend = backend_in_events(config);
  return options;
}

}  // namespace ddprun::launcher
