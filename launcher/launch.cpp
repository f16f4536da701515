#include "launcher/launch.h"

#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "agent/agent.h"
#include "agent/etcd/etcd_access.h"
#include "agent/link/waiting_message.h"
#include "agent/process/exit_status.h"
#include "agent/process/job_cookie.h"
#include "agent/process/regular_file.h"
#include "agent/process/topology.h"
#include "agent/tell/job_state.h"
#include "launcher/config/exit_codes.h"
#include "launcher/config/inputs.h"
#include "launcher/config/machine.h"
#include "launcher/config/visible_gpus.h"
#include "launcher/plan/job.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/program.h"
#include "launcher/plan/search_context.h"
#include "launcher/print/dry_run.h"
#include "launcher/print/shown_command.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/channel/worker_exit.h"
#include "rendezvous/peer/loopback.h"

namespace ddprun::launcher {
namespace {

constexpr std::chrono::seconds kLookUpLimit{1};  // the agent looks up the names that are still unresolved then

std::vector<agent::Binding> bindings(agent::NumaBinding kind, int workers) {
  if (kind == agent::NumaBinding::none) return {};
  return plan_bindings(kind, read_topology(kind, agent::gpu_variables()), workers);
}

// Its name may be looked up.
bool is_here(const std::string& host) {
  return whose_addresses({host}, kLookUpLimit).front() == rendezvous::Locality::local;
}

// The host that a job of one node was given for its store, and the option; empty: none.
std::pair<std::string, const char*> named_host(const Config& config) {
  if (several_nodes(config)) return {};
  if (!config.master_addr.empty()) return {config.master_addr, "--master-addr"};
  if (config.rdzv_endpoint && !config.standalone && config.rdzv_backend != Backend::etcd)
    return {config.rdzv_endpoint->host, "--rdzv-endpoint"};
  return {config.local_addr, "--local-addr"};
}

// Workers that are sent elsewhere for the store of their own node would wait there for nothing, as nobody else serves
// it. A typical address is that of a manual's machine.
void warn_of_named_host(const Config& config, const HostInfo& host) {
  const auto [named, option] = named_host(config);
  if (host.named_is_elsewhere)
    print_line(stderr, "ddprun: " + named + " (" + option + ") is not known as an address of " + host.name +
                           ": as the job has one node (--nnodes), its workers meet at 127.0.0.1.");
}

// An installed ddprun, and one in its build folder, have it beside them.
std::string python_folder() {
  std::string folder = own_binary();
  for (int parents = 0; parents < 2; ++parents) folder.resize(folder.rfind('/') == folder.npos ? 0 : folder.rfind('/'));
  folder += "/share/ddprun/python";
  return access(folder.c_str(), R_OK | X_OK) == 0 ? folder : "";
}

HostInfo host_info(const Config& config, const Machine& machine) {
  HostInfo host{host_name(),
                {},
                own_environment(),
                python_folder(),
                bindings(config.numa_binding, worker_count(config.nproc_per_node, machine).value()),
                {}};
  if (config.virtual_local_rank && !std::getenv("ZE_AFFINITY_MASK"))
    if (std::string all = all_of_intel(agent::gpu_variables()); !all.empty())
      host.environment["ZE_AFFINITY_MASK"] = std::move(all);
  const std::string named = named_host(config).first;
  host.named_is_elsewhere = !named.empty() && !is_here(named);
  if (config.interface.empty()) return host;
  host.interface_address = address_of_interface(config.interface);
  if (host.interface_address.empty() && master_host(config).empty())
    throw UsageError("cannot use the interface " + config.interface, "it has no address",
                     "Bring it up, or name an address by --master-addr.");
  return host;
}

// If the job has a secret, a token, a certificate's key or etcd's password, keeps it out of core dumps and
// makes our memory unreadable for processes of our user, workers included.
void hide_memory(const Config& config) {
  const bool of_etcd = config.etcd && (!config.etcd->password.empty() || config.etcd->key);
  const bool has_credentials = !std::holds_alternative<rendezvous::NoCredentials>(credentials(config));
  if (has_credentials || of_etcd || config.metrics_token || !config.metrics_key.empty()) hide_own_memory();
}

// By one node: the others' output is often in the same log.
void warn_if_open(const Config& config) {
  const std::string open = open_to(config);
  if (config.node_rank > 0 || open.empty()) return;
  print_line(stderr, "ddprun: no token is set: anyone who can reach " + open +
                         " can join this job. Make one with --make-token, and pass it by --token-file.");
}

void warn_if_local_only(const Config& config) {
  if (config.rdzv_backend != Backend::c10d || config.rdzv_endpoint) return;
  const MeetingPlace here = meeting_place(config);
  print_line(stderr, "ddprun: no --rdzv-endpoint is given: only agents of this machine can join (at " + here.host +
                         ":" + std::to_string(here.port) +
                         "). For others pass --rdzv-endpoint HOST:PORT, an address of one node.");
}

// A warning only: the others may reach this machine by it, such as by the address of a container's host.
void warn_if_not_our_address(const Config& config, const std::string& host) {
  if (config.local_addr.empty()) return;
  if (is_here(config.local_addr)) return;
  print_line(stderr, "ddprun: " + config.local_addr + " (--local-addr) is not an address of " + host +
                         ", but the workers of other nodes will look for this node there.");
}

void warn_if_loopback_is_down() {
  if (!rendezvous::loopback_is_up())
    print_line(stderr, std::string("ddprun: ") + rendezvous::kLoopbackIsDown + ". " + rendezvous::kBringLoopbackUp);
}

std::vector<std::string> meeting_hosts(const Config& config) {
  std::vector<std::string> out;
  for (const MeetingPlace& where : meeting_places(config)) out.push_back(where.host);
  return out;
}

// Nodes that find each other by an endpoint only must use the same name for the job.
std::string run_id_of(const Config& config) {
  if (!config.rdzv_id.empty()) return config.rdzv_id;
  return several_nodes(config) ? "none" : random_run_id();
}

// Makes the folder, and reads what earlier starts of the job left there.
rendezvous::LedgerRecord open_state(const Config& config, agent::AgentOptions& options) {
  if (config.state_dir.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(config.state_dir, error);
  if (access(config.state_dir.c_str(), W_OK | X_OK) != 0)
    throw UsageError("cannot write into the folder " + config.state_dir + " (--state-dir)",
                     error ? error.message() : std::strerror(errno), "Name one that ddprun may write to.");
  options.state.ledger = agent::state_file(config.state_dir, config.rdzv_id);
  return agent::load_state(options.state.ledger,
                           [](const std::string& line) { print_line(stderr, "ddprun: " + line); });
}

// Data loaders and collectives open thousands of files; the soft limit exists only for select(). Workers inherit it.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

bool nothing_lost(const agent::JobResult& result) { return result.unsaved.known && result.unsaved.steps == 0; }

// Every notice of one is handled as SIGTERM.
bool is_preemption(const rendezvous::Outcome& outcome) {
  return outcome.verdict == rendezvous::Verdict::interrupted && outcome.signal == SIGTERM;
}

int own_exit_code(const agent::JobResult& result, std::optional<int> on_preempt) {
  const rendezvous::Outcome& outcome = result.outcome;
  switch (outcome.verdict) {
    case rendezvous::Verdict::success:
      return kSuccess;
    case rendezvous::Verdict::worker_failed:
      return kWorkerFailed;
    case rendezvous::Verdict::worker_final:
      return outcome.cause->status.code == kWorkerExitUnsaved ? kUnsaved : kDoNotRequeue;
    case rendezvous::Verdict::stopped:
      return kDoNotRequeue;
    case rendezvous::Verdict::requeue:
      return kRequeue;
    case rendezvous::Verdict::interrupted:
      if (result.finished) return kSuccess;  // the workers had nothing left to do: not to be started again
      if (on_preempt && is_preemption(outcome)) return *on_preempt;
      if (outcome.signal == SIGINT || outcome.signal == SIGPIPE) return kInterrupted + outcome.signal;
      return nothing_lost(result) ? kRequeue : kInterrupted + outcome.signal;
    case rendezvous::Verdict::too_few_nodes:
    case rendezvous::Verdict::refused:
      return kRendezvousImpossible;
    case rendezvous::Verdict::too_few_left:
    case rendezvous::Verdict::out_of_reach:
      return kRequeue;
  }
  return kInternalError;
}

// As in a shell: 128 plus the signal, 126 if the program could not be started.
int exit_code_of_worker(const rendezvous::ExitStatus& status) {
  if (status.start_error) return 126;
  if (status.signal) return kInterrupted + status.signal;
  return status.code ? status.code : static_cast<int>(kWorkerFailed);
}

int exit_code(const agent::JobResult& result, const Config& config) {
  const ExitCodeChoice choice = config.exit_code;
  if (choice == ExitCodeChoice::worker && result.outcome.cause)
    return exit_code_of_worker(result.outcome.cause->status);
  const int code = own_exit_code(result, config.exit_on_preempt);
  if (config.exit_on_preempt && is_preemption(result.outcome)) return code;  // named for this case alone
  return choice == ExitCodeChoice::torchrun && code != kSuccess ? static_cast<int>(kWorkerFailed) : code;
}

// For a failure the report, as printed, without ddprun's name.
std::string message_of(const agent::JobResult& result) {
  constexpr std::string_view kPrefix = "ddprun: ";
  const rendezvous::Outcome& outcome = result.outcome;
  if (result.report.starts_with(kPrefix)) return result.report.substr(kPrefix.size());
  if (outcome.verdict == rendezvous::Verdict::success) return {};
  if (outcome.verdict == rendezvous::Verdict::interrupted)
    return "the job was interrupted by " + agent::signal_name(outcome.signal) + ".";
  return "the job ended: " + outcome.reason + ".";
}

agent::JobEnd end_of(const agent::JobResult& result, const Config& config) {
  agent::JobEnd end{exit_code(result, config), message_of(result), {}};
  if (const auto& cause = result.outcome.cause)
    end.first_failure = {cause->rank, cause->local_rank, cause->host, agent::torchrun_code(cause->status)};
  return end;
}

}  // namespace

// A random UUID (RFC 9562, version 4), as torchrun uses for a standalone job.
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

std::string interpreter_here() { return described(find_interpreter(search_context())); }

std::string dry_run(const Config& config, const Machine& machine) {
  const HostInfo host = host_info(config, machine);
  const std::string run_id = config.rdzv_id.empty() ? "(a random one)" : config.rdzv_id;
  const Program program = find_program(config, search_context());
  const agent::AgentOptions options = job_options(config, machine, program, run_id, host);
  const std::string python = program.by_python ? interpreter_here() + "\n\n" : "";
  return python + dry_run_text(plan_of(options, host.environment));
}

agent::JobEnd launch(const Config& config, const Machine& machine, int keeper_fd, const Start& start) {
  hide_memory(config);
  const std::string run_id = run_id_of(config);
  HostInfo host = host_info(config, machine);
  if (several_nodes(config) && !config.etcd)
    host.whose_meeting_places = whose_addresses(meeting_hosts(config), kLookUpLimit);
  const Program program = find_program(config, search_context());
  agent::AgentOptions options = job_options(config, machine, program, run_id, host);
  warn_if_loopback_is_down();
  warn_of_named_host(config, host);
  if (const std::string problem = watch_problem(config, program); !problem.empty())
    print_line(stderr, "ddprun: " + problem + ".");
  if (several_nodes(config)) {
    warn_if_open(config);
    warn_if_local_only(config);
    warn_if_not_our_address(config, host.name);
  }
  options.command.job.cookie = to_string(agent::own_cookie(run_id));
  options.keeper_fd = keeper_fd;
  options.prints_end = start.prints_end;
  options.command_line = shown_command(start.words);
  if (!config.preemption_probe.empty())
    options.probe = agent::probe_target(config.preemption_probe,
                                        [](const std::string& path) { return is_program(kind_of_file(path)); });
  raise_file_limit();
  rendezvous::RoundPolicy policy = round_policy(config);
  policy.earlier_starts = open_state(config, options);
  const agent::JobResult result = agent::Agent(std::move(options), policy).run();
  agent::JobEnd end = end_of(result, config);
  if (is_first_node(config, result.seat)) keep_record(start, config, run_id, result.seat, end);
  return end;
}

}  // namespace ddprun::launcher
