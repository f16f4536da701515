// Everything a person can ask for, as a plain struct with argued defaults. The command line fills it (cli.h); nothing
// below the launcher reads the environment or the command line.
#pragma once
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/logs/log_options.h"
#include "agent/logs/rank_selection.h"
#include "agent/process/numa.h"
#include "launcher/settings/option.h"
#include "rendezvous/base/time.h"
#include "rendezvous/peer/credentials.h"
#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/token.h"

namespace ddprun::launcher {

// The enumerators of each stand in the order of its option's choices (options.cpp).
enum class Backend { fixed, c10d };  // torchrun's "static" and "c10d"
enum class ScopeChoice { automatic, rank, group };
enum class ExitCodeChoice { ddprun, torchrun, worker };
enum class StoreUsers { own, any };
enum class EventSink { nowhere, console, file };

constexpr int kAutoThreads = 0;

// So many workers, or as many as this machine has CPUs or GPUs; automatic: GPUs where there are any, else CPUs.
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
  bool run_path = false;  // by Python, whatever it is; goes before `module` and `no_python`
  bool virtual_local_rank = false;
  agent::NumaBinding numa_binding = agent::NumaBinding::none;
  // OMP_NUM_THREADS. Empty: as torchrun, 1 where it is unset and there are several workers; kAutoThreads: the CPUs this
  // process may use, divided by its workers.
  std::optional<int> omp_threads = {};

  // Job.
  NodeCounts nnodes = {};
  int node_rank = 0;
  bool standalone = false;
  Backend rdzv_backend = Backend::fixed;
  std::optional<Endpoint> rdzv_endpoint = {};    // the first one
  std::vector<Endpoint> further_endpoints = {};  // where the coordinator may be, once a job is under way
  // Empty: a fresh random one, so that two jobs never become one by accident.
  // For several nodes: "none", as torchrun has it, so that they find each other.
  std::string rdzv_id = {};
  std::map<std::string, std::string> rdzv_conf = {};  // keys and values are checked
  std::string master_addr = {};                       // empty: see master_host()
  int master_port = 0;                                // 0: a free one for every round
  int control_port = 0;                    // where an agent that does not have the coordinator listens; 0: any free one
  rendezvous::PortRange store_ports = {};  // of which each round's store takes another one
  std::string local_addr = {};
  std::string interface = {};

  // Access. Whose processes on this machine may use the store: the user's own and root's, or anybody's. Elsewhere
  // nobody tells whose a process is.
  StoreUsers store_users = StoreUsers::own;
  std::optional<std::uint64_t> store_memory =
      {};  // its keys and queues may take; 0: any. Empty: an eighth of the memory
  // Who may join: a token, or certificates, or (nothing of it) anybody.
  std::string token_file = {};
  std::optional<rendezvous::Token> token = {};  // from that file, or from the environment
  std::string token_variable = {};              // DDPRUN_TOKEN, where it is set
  std::string tls_cert = {}, tls_key = {}, tls_ca = {};
  std::optional<rendezvous::CertificateFiles> certificates = {};  // from those three

  // Stopping and restarts. Unlike torchrun's 0: a job that comes back is why one uses a launcher. A failure that
  // repeats before any progress ends the job all the same.
  int max_restarts = 3;
  // How long a worker may take to leave after SIGTERM. Schedulers kill 30 s after they ask, so 25 leaves us five.
  Duration stop_grace = std::chrono::seconds(25);
  ScopeChoice stop_scope = ScopeChoice::automatic;
  std::optional<Duration> peer_exit_timeout = {};
  std::optional<Duration> max_run = {};
  std::vector<int> signals_to_handle = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::vector<int> preempt_signals = {};
  ExitCodeChoice exit_code = ExitCodeChoice::ddprun;
  bool store_proxy = false;  // also without a token
  bool core_dumps = false;
  // A control group costs half a millisecond and needs rights; without one nothing escapes either, unless keeper and
  // agent are killed at once.
  bool cgroup = false;

  // Logs.
  std::string log_dir = {};  // empty: none
  agent::StreamSpec redirects = {};
  agent::StreamSpec tee = {};
  agent::RankSet local_ranks_filter = {};
  std::vector<std::string> stdout_filters = {};
  std::vector<std::string> stderr_filters = {};
  std::string log_prefix = "[${role_name}${local_rank}]:";
  std::uint64_t log_size_bytes_max = 0;  // 0: no cap
  int log_keep = 3;
  agent::LogTree log_layout = agent::LogTree::ddprun;

  // Reports.
  EventSink events = EventSink::nowhere;
  std::string event_file = {};
  bool verbose = false;

  // What to do instead of running the job.
  bool dry_run = false;
  bool print_config = false;

  std::map<std::string, std::string> env = {};  // further variables for the workers, from a file's [env]
  // The program and its arguments, untouched.
  std::vector<std::string> program = {};
  std::string program_place = {};  // "job.toml:3"; empty: the command line

  // What was set, and where: print_config shows it, problems() names it.
  std::vector<settings::Setting> settings = {};
};

// What this machine has.
struct Machine {
  int cpus = 1;                                               // that this process may run on
  int gpus = 0;                                               // NVIDIA devices that CUDA_VISIBLE_DEVICES leaves
  std::function<std::vector<std::string>()> interfaces = {};  // its network interfaces; asked only where one is named
  std::uint64_t memory_bytes =
      0;  // that this process may have: of the machine, its control groups, ulimit -v; 0: unknown
};

// How many workers that are here; empty where it is as many as GPUs, and there is none.
std::optional<int> worker_count(const WorkerCount& count, const Machine& machine);

bool several_nodes(const Config& config);

// Where the nodes of a job meet: a static job's --master-addr and --master-port, an elastic one's --rdzv-endpoint.
// Empty host: nobody named it.
struct MeetingPlace {
  std::string host;
  int port = 0;
};
MeetingPlace meeting_place(const Config& config);
std::vector<MeetingPlace> meeting_places(const Config& config);  // an elastic job may have several; the first is first

// What workers find as MASTER_ADDR, and the store's port (0: a free one): as --master-addr and --master-port say, else
// a static --rdzv-endpoint, else --local-addr. Empty: nobody named an address. --standalone leaves endpoints out.
std::string master_host(const Config& config);
int master_port(const Config& config);

// Every mistake that only shows when the values are seen together or on this machine, one sentence each: what, where,
// how to mend.
std::vector<std::string> problems(const Config& config, const Machine& machine);

}  // namespace ddprun::launcher
