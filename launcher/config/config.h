// All settings of a run, as a plain struct with argued defaults. The command line fills it (cli.h); nothing below the
// launcher reads the environment or the command line.
#pragma once
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/desk/metrics_options.h"
#include "agent/hang/hang_limits.h"
#include "agent/logs/log_options.h"
#include "agent/logs/output_watch.h"
#include "agent/machine/machine_limits.h"
#include "agent/process/groups/numa.h"
#include "agent/process/wrappers.h"
#include "agent/round/stop_policy.h"
#include "launcher/settings/option.h"
#include "launcher/ssh/host_list.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round_policy.h"
#include "rendezvous/peer/credentials.h"
#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/token.h"

namespace ddprun::agent {
struct EtcdAccess;
}
namespace ddprun::launcher {

// The enumerators are in the order of their option's choices (options.cpp).
enum class Backend { fixed, c10d, etcd };  // torchrun's "static", "c10d", "etcd" and "etcd-v2"
enum class ExitCodeChoice { ddprun, torchrun, worker };
enum class StoreUsers { own, any };
enum class EventSink { nowhere, console, file };
enum class SchedulerChoice { automatic, none };
enum class WatchMode { off, see, act };

constexpr int kAutoThreads = 0;

// A number of workers, or as many as this machine has CPUs or GPUs; automatic: GPUs if there are any, else CPUs.
struct WorkerCount {
  enum By { number, cpus, gpus, automatic };
  By by = number;
  int workers = 1;  // by number
};

// The fewest nodes and the most.
struct NodeCounts {
  int least = 1, most = 1;
  bool operator==(const NodeCounts&) const = default;
};
std::string text_of(const NodeCounts& nodes);  // "4", "2:4"

struct Endpoint {
  std::string host;  // without brackets
  std::optional<int> port = {};
};

struct Config {
  // Workers.
  WorkerCount nproc_per_node = {};
  std::string role = "default";
  bool module = false;
  bool no_python = false;
  bool prefork = false;
  std::string prefork_import;  // modules, comma-separated
  std::string prefork_learn;   // a file of modules; empty: none
  bool run_path = false;       // Python runs it, whatever it is; wins over `module` and `no_python`
  bool virtual_local_rank = false;
  agent::NumaBinding numa_binding = agent::NumaBinding::none;
  // OMP_NUM_THREADS. Empty: as torchrun, 1 if it is unset and there are several workers; kAutoThreads: the CPUs this
  // process may use, divided by its workers.
  std::optional<int> omp_threads = {};

  // Job.
  NodeCounts nnodes = {};
  int node_rank = 0;
  bool standalone = false;
  Backend rdzv_backend = Backend::fixed;
  std::optional<Endpoint> rdzv_endpoint = {};          // the first one
  std::vector<Endpoint> further_endpoints = {};        // where else the coordinator may be in a running job
  std::string endpoint_scheme = {};                    // "http" or "https", which stood before endpoints: of etcd
  std::shared_ptr<const agent::EtcdAccess> etcd = {};  // null: the nodes meet without it, or --hosts start them
  // Empty: a fresh random one, so that two jobs are never mixed up by accident; for several nodes "none", as torchrun
  // does, so that they find each other.
  std::string rdzv_id = {};
  std::map<std::string, std::string> rdzv_conf = {};  // validated
  std::string master_addr = {};                       // empty: see master_host()
  int master_port = 0;                                // 0: a free one for every round
  int control_port = 0;                    // where an agent that does not have the coordinator listens; 0: any free one
  rendezvous::PortRange store_ports = {};  // each round's store uses another one of these
  std::string local_addr = {};
  std::string interface = {};
  SchedulerChoice scheduler = SchedulerChoice::automatic;  // read by cli.cpp: where values come from that nobody gave

  // Hosts: on which this ddprun starts the job by ssh. None: it runs its part of the job here.
  std::vector<HostEntry> hosts = {};  // from --hosts or the host file
  std::string hostfile = {};
  std::vector<std::string> ssh = {"ssh"};  // the command, in words
  std::string sync = {};                   // this folder is copied to the hosts first
  int ssh_fan_out = 32;                    // each costs the head a process of 10 MB

  // Access. Whose processes on this machine may use the store: those of the user and root, or any. For other machines
  // the owner of a process is unknown.
  StoreUsers store_users = StoreUsers::own;
  std::optional<std::uint64_t> store_memory =
      {};  // limit for its keys and queues; 0: none. Empty: an eighth of the memory
  // Who may join: peers with a token, or with certificates, or anybody if neither is set.
  std::string token_file = {};
  std::optional<rendezvous::Token> token = {};  // from that file, or from the environment
  std::string token_variable = {};              // the content of DDPRUN_TOKEN, if set
  std::string tls_cert = {}, tls_key = {}, tls_ca = {};
  std::optional<rendezvous::CertificateFiles> certificates = {};  // from those three

  // Stopping and restarts. Three restarts, not torchrun's 0: users expect a launcher to restart jobs. A failure that
  // repeats without progress still ends the job.
  rendezvous::RoundPolicy rounds = {};               // its rules are from the file; round_policy() adds the nodes
  bool in_process = false;                           // workers that have lost a peer stay for the next round
  std::vector<agent::OutputRule> output_rules = {};  // from the file
  std::vector<agent::MetricDefinition> output_metrics = {};  // from the file
  agent::MachineLimits machine_limits = {};
  agent::HangLimits hang_limits = {};
  WatchMode watch = WatchMode::off;
  std::string health_check = {};       // a shell command; empty: none
  std::string exclude_file = {};       // gets the names of excluded machines; empty: no file
  std::uint64_t memory_snapshots = 0;  // bytes of this node for them; 0: none
  std::string state_dir = {};          // keeps the restart ledger between starts of the job; empty: nothing keeps it
  agent::StopPolicy stop = {};  // but for its signals; schedulers kill 30 s after they ask, so its grace leaves us five
  agent::StopScope stop_scope = agent::StopScope::automatic;
  std::optional<Duration> max_run = {};
  std::vector<int> signals_to_handle = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::vector<int> preempt_signals = {};
  std::optional<int> exit_on_preempt = {};  // ddprun's own exit code then; empty: by whether steps are lost
  std::string preemption_probe = {};        // a file or a shell command; empty: none
  ExitCodeChoice exit_code = ExitCodeChoice::ddprun;
  bool store_proxy = false;  // also without a token
  bool core_dumps = false;
  // A control group costs half a millisecond and needs permissions; without one, processes escape only if keeper and
  // agent are killed at once.
  bool cgroup = false;

  // Logs.
  agent::LogOptions logs = {};  // but for what is known of the host, and the role

  // Reports.
  EventSink events = EventSink::nowhere;
  std::string event_file = {};
  bool verbose = false;
  agent::MetricsOptions metrics = {};   // without an address: none, or for this machine alone if there is a page
  std::string metrics_token_file = {};  // with their token
  std::string otlp = {};                // a URL, or "env"; empty: metrics are not pushed

  // What to do instead of running the job.
  bool dry_run = false;
  bool print_config = false;

  std::map<std::string, std::string> env = {};  // further variables for the workers, from a file's [env]
  // The program and its arguments, unchanged.
  std::vector<std::string> program = {};
  std::string program_place = {};  // "job.toml:3"; empty: from the command line

  // How often the scheduler has started this job again; empty: it does not say.
  std::optional<int> requeues = {};

  // What was set, and where: for print_config and the messages of problems().
  std::vector<settings::Setting> settings = {};
};

// What this machine has.
struct Machine {
  int cpus = 1;  // that this process may use
  std::function<int()> gpus = [] {
    return 0;
  };  // as CUDA would count them; asked only if needed: NVML may take a second
  std::function<std::vector<std::string>()> interfaces = {};  // network interfaces; called only if one is named
  std::uint64_t memory_bytes = 0;    // available to this process: physical, control groups, ulimit -v; 0: unknown
  std::uint64_t file_bytes_max = 0;  // that this process may write to a file (ulimit -f); 0: no limit
};

// The number of workers; empty if the count is by GPUs and there are none.
std::optional<int> worker_count(const WorkerCount& count, const Machine& machine);

bool several_nodes(const Config& config);

// A token, a certificate's key or etcd's password: our memory must not be readable for processes of our user, workers
// included, nor be in core dumps.
bool has_secrets(const Config& config);

// Where the nodes of a job meet, and where their workers do.
struct MeetingPlace {
  std::string host;  // empty: not given
  int port = 0;
};
struct Places {
  bool several_nodes = false;
  // A static job's --master-addr and --master-port, an elastic one's --rdzv-endpoint, which may name several.
  // Not of a job of one node.
  std::vector<MeetingPlace> meeting = {};
  // The workers' MASTER_ADDR, and the store's port (0: a free one): from --master-addr and --master-port, else a static
  // --rdzv-endpoint, else --local-addr. Empty: no address given. --standalone ignores endpoints.
  std::string master_host = {};
  int master_port = 0;
};
Places places_of(const Config& config);

// All mistakes that show only in combination or on this machine, one sentence each: what, where, how to fix. Where
// `some` are known, that no program is named may follow from them, and is not said.
std::vector<std::string> problems(const Config& config, const Machine& machine,
                                  const std::vector<std::string>& some = {});

}  // namespace ddprun::launcher
