#include "launcher/job.h"

#include <algorithm>
#include <filesystem>

#include "agent/process/exit_status.h"
#include "launcher/options.h"
#include "launcher/values.h"
#include "rendezvous/base/error.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
// A larger store is not plausible, and requests in progress may use as much again: the workers get the rest.
constexpr std::uint64_t kStoreShare = 8;

std::string names_of(const std::vector<int>& signals) {
  std::string out;
  for (const int signal : signals) out += (out.empty() ? "" : ",") + agent::signal_name(signal);
  return out;
}

std::optional<int> omp_threads(const Config& config, const Machine& machine, int workers) {
  if (config.omp_threads != kAutoThreads) return config.omp_threads;
  return std::max(1, machine.cpus / workers);
}

// What workers inherit: ddprun's own environment without the job's secret, plus the configuration file's variables.
agent::Environment inherited(const Config& config, const Place& place) {
  agent::Environment out = place.environment;
  out.erase(rendezvous::kTokenVariable);
  for (const auto& [name, value] : config.env) out[name] = value;
  return out;
}

// With several nodes: empty if the address is to be taken from how the others reach us.
std::string own_address(const Config& config, const Place& place) {
  return config.local_addr.empty() ? place.interface_address : config.local_addr;
}

std::string host_for_workers(const Config& config, const Place& place) {
  if (several_nodes(config)) return own_address(config, place);
  if (const std::string named = master_host(config); !named.empty()) return named;
  return config.interface.empty() ? kLoopback : place.interface_address;
}

agent::LogOptions log_options(const Config& config, const Place& place) {
  agent::LogOptions logs;
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

agent::StopScope stop_scope(const Config& config, const Program& program) {
  if (config.stop_scope == ScopeChoice::automatic)
    return program.wrapper ? agent::StopScope::group : agent::StopScope::rank;
  return config.stop_scope == ScopeChoice::group ? agent::StopScope::group : agent::StopScope::rank;
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

void check_devices(const Config& config, const agent::Environment& environment, int workers) {
  if (!config.virtual_local_rank || agent::virtual_device(environment, workers - 1)) return;
  const char* variable = agent::devices_variable(environment);
  throw UsageError("cannot give every worker a device of its own (--virtual-local-rank)",
                   std::string(variable) + " is '" + environment.at(variable) + "', too short for " +
                       std::to_string(workers) + " workers",
                   "Name as many devices as workers, or pass a smaller --nproc-per-node.");
}

}  // namespace

namespace {

Duration seconds_of(const Config& config, const char* key, Duration otherwise) {
  const auto found = config.rdzv_conf.find(key);
  return found == config.rdzv_conf.end() ? otherwise : std::chrono::seconds(std::stol(found->second));
}

rendezvous::Whose whose_first(const Place& place) {
  return place.whose_meeting_places.empty() ? rendezvous::Whose::unknown : place.whose_meeting_places.front();
}

// Whether the first place is this node's: by --rdzv-conf is_host, as torchrun; else by the owner of its address, or by
// rank 0 of a static job.
rendezvous::Whose host_of_first(const Config& config, const Place& place) {
  const auto ours_if = [](bool ours) { return ours ? rendezvous::Whose::ours : rendezvous::Whose::anothers; };
  if (const auto said = config.rdzv_conf.find("is_host"); said != config.rdzv_conf.end())
    return ours_if(std::get<bool>(settings::read_flag(said->second)));
  if (config.rdzv_backend != Backend::fixed) return whose_first(place);
  if (config.node_rank == 0 && whose_first(place) == rendezvous::Whose::anothers)
    throw UsageError("cannot be the node with rank 0", meeting_place(config).host + " is no address of " + place.host,
                     "Give --node-rank 0 to the node that has it, or name an address of this one by --master-addr.");
  return ours_if(config.node_rank == 0);
}

// A sentence if no place is this node's: if no node has the address, every node reports it.
std::string odd_about_places(const agent::Meeting& meeting, const Place& place) {
  const auto& whose = place.whose_meeting_places;
  if (whose.empty() || std::count(whose.begin(), whose.end(), rendezvous::Whose::anothers) != std::ssize(whose))
    return {};
  if (meeting.places.size() > 1) return "none of the job's endpoints is an address of " + place.host;
  return meeting.places.front().host + " is no address of " + place.host;
}

agent::Meeting meeting(const Config& config, const Program& program, const std::string& run_id, const Place& place) {
  agent::Meeting out;
  for (const MeetingPlace& where : meeting_places(config))
    out.places.push_back({where.host, static_cast<std::uint16_t>(where.port)});
  out.whose = place.whose_meeting_places;
  out.whose.resize(out.places.size(), rendezvous::Whose::unknown);
  out.whose.front() = host_of_first(config, place);
  out.odd = odd_about_places(out, place);
  out.others_may_host = config.rdzv_backend != Backend::fixed;
  out.control_port = static_cast<std::uint16_t>(config.control_port);
  out.run_id = run_id;
  out.name = place.host;
  out.fingerprint = {rendezvous::kControlProtocol, DDPRUN_VERSION, text_of(config.nnodes),
                     std::filesystem::path(program.path).filename().string()};
  out.credentials = credentials(config);
  return out;
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
  rendezvous::RoundPolicy policy;
  policy.restarts.max_restarts = config.max_restarts;
  if (!several_nodes(config)) return policy;
  const NodeCounts& nodes = config.nnodes;
  policy.nodes_min = nodes.least;
  policy.nodes_max = nodes.most;
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

agent::AgentOptions job_options(const Config& config, const Machine& machine, const Program& program,
                                const std::string& run_id, const Place& place) {
  agent::AgentOptions options;
  options.workers = worker_count(config.nproc_per_node, machine).value();
  options.role = config.role;
  options.command = {config.program.front(), program.path, program.argv, inherited(config, place), {run_id}};
  options.command.core_dumps = config.core_dumps;
  options.command.bindings = place.bindings;
  options.cgroup = config.cgroup;
  check_devices(config, options.command.inherited, options.workers);
  agent::JobIdentity& job = options.command.job;
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
  options.store_address = options.master_host == kLoopback ? kLoopback : "";  // closed to other machines by default
  options.master_port = static_cast<std::uint16_t>(several_nodes(config) ? 0 : master_port(config));
  options.store_ports = config.store_ports;
  options.store_bytes_max = config.store_memory.value_or(machine.memory_bytes / kStoreShare);
  options.store_for_any_user = config.store_users == StoreUsers::any;
  if (several_nodes(config)) {
    options.meeting = meeting(config, program, run_id, place);
    options.join_timeout = round_policy(config).join_timeout;
    options.store_proxy =
        config.store_proxy || !std::holds_alternative<rendezvous::NoCredentials>(options.meeting->credentials);
    if (config.rdzv_backend == Backend::fixed || in_force(config.settings, "node-rank"))
      options.wished_rank = config.node_rank;
  }
  options.logs = log_options(config, place);
  options.log_level = agent::log_level(variable(place, "LOGLEVEL"), config.verbose);
  options.event_log = event_log(config);
  if (variable(place, "TORCHELASTIC_ENABLE_FILE_TIMER") == "1")
    options.timer_file = variable(place, "TORCHELASTIC_TIMER_FILE");
  options.stuck_limit = stuck_limit(variable(place, "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT"));
  options.own_error_file = variable(place, "TORCHELASTIC_ERROR_FILE");
  options.rdzv_backend = config.rdzv_backend == Backend::fixed && !config.standalone ? "static" : "c10d";
  return options;
}

}  // namespace ddprun::launcher
