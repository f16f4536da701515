#include "launcher/options.h"

#include <algorithm>
#include <limits>

#include "launcher/values.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"

namespace ddprun {
namespace {

constexpr int kAny = std::numeric_limits<int>::max();
constexpr int kPortMax = 65'535, kThreadsMax = 4'096, kKeepMax = 1'000;
constexpr auto kGraceMax = std::chrono::hours(24);

using Text = const std::string&;

// Each of these puts a text into one member and returns what is wrong with it, if anything.

std::string complaint_of(const Wrong& wrong) { return wrong.complaint; }
std::string complaint_of(const std::string& wrong) { return wrong; }

template <class Value, class Complaint, class Target>
std::string store(std::variant<Value, Complaint> read, Target& target) {
  if (const auto* wrong = std::get_if<1>(&read)) return complaint_of(*wrong);
  target = std::move(std::get<0>(read));
  return {};
}

template <auto Member>
std::string text(Config& config, const OptionRow&, Text text) {
  config.*Member = text;
  return {};
}

template <auto Member>
std::string yes_or_no(Config& config, const OptionRow&, Text text) {
  return store(read_flag(text), config.*Member);
}

std::string store_memory(Config& config, const OptionRow&, Text text) {
  return store(read_byte_size(text), config.store_memory);
}

template <auto Member, int Min, int Max>
std::string whole(Config& config, const OptionRow&, Text text) {
  return store(read_whole_number(text, Min, Max), config.*Member);
}

// Where the text stands among the row's choices, or what is wrong with it.
std::variant<std::size_t, std::string> place_among_choices(const OptionRow& row, Text text) {
  const std::vector<std::string> choices = split(row.choices, '|');
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  const std::string hint = did_you_mean(text, choices);
  return "it takes " + listed(choices) + (hint.empty() ? "" : "." + hint);
}

// One of the row's choices; the enumerators stand in their order.
template <auto Member>
std::string choice(Config& config, const OptionRow& row, Text text) {
  std::size_t place = 0;
  if (std::string complaint = store(place_among_choices(row, text), place); !complaint.empty()) return complaint;
  config.*Member = static_cast<std::remove_reference_t<decltype(config.*Member)>>(place);
  return {};
}

template <auto Member>
std::string signals(Config& config, const OptionRow&, Text text) {
  return store(read_signals(text), config.*Member);
}

std::string preempt_signals(Config& config, const OptionRow&, Text text) {
  if (!text.empty()) return store(read_signals(text), config.preempt_signals);
  return config.preempt_signals.clear(), "";
}

template <auto Member>
std::string filters(Config& config, const OptionRow&, Text text) {
  return store(read_filters(text), config.*Member);
}

std::string without_blanks(std::string text) {
  std::erase(text, ' ');
  return text;
}

template <auto Member>
std::string streams(Config& config, const OptionRow&, Text text) {
  const std::string complaint = store(parse_stream_spec(without_blanks(text)), config.*Member);
  if (text.empty() || !complaint.starts_with("'' is ")) return complaint;
  return "a value is missing: it takes RANK:VALUE,RANK:VALUE, and VALUE is one of" +
         complaint.substr(std::string_view("'' is none of").size());
}

std::string ranks(Config& config, const OptionRow&, Text text) {
  return store(parse_rank_set(without_blanks(text)), config.local_ranks_filter);
}

// A time above zero, or "off".
template <auto Member>
std::string limit(Config& config, const OptionRow&, Text text) {
  config.*Member = std::nullopt;
  if (text == "off" || text == "0") return {};
  std::string complaint = store(read_duration(text), config.*Member);
  return complaint.empty() ? "" : complaint + ", or off for none";
}

std::string stop_grace(Config& config, const OptionRow&, Text text) {
  Duration grace{};
  if (std::string complaint = store(read_duration(text), grace); !complaint.empty()) return complaint;
  if (grace > kGraceMax) return "it takes at most a day";
  config.stop_grace = grace;
  return {};
}

std::string monitor_interval(Config&, const OptionRow&, Text text) {
  Duration ignored{};
  if (std::string complaint = store(read_duration(text), ignored); !complaint.empty()) return complaint;
  return ignored > Duration::zero() ? "" : "it takes a time above 0";
}

// Options of torchrun's that change nothing here: a value that torchrun would refuse is refused all the same.
std::string choice_without_effect(Config&, const OptionRow& row, Text text) {
  std::size_t ignored = 0;
  return store(place_among_choices(row, text), ignored);
}

std::string flag_without_effect(Config&, const OptionRow&, Text text) {
  bool ignored = false;
  return store(read_flag(text), ignored);
}

std::string omp_threads(Config& config, const OptionRow&, Text text) {
  if (text == "auto") return config.omp_threads = kAutoThreads, "";
  std::string complaint = store(read_whole_number(text, 1, kThreadsMax), config.omp_threads);
  return complaint.empty() ? "" : complaint + ", or auto";
}

std::string backend(Config& config, const OptionRow& row, Text text) {
  if (text == "etcd" || text == "etcd-v2")
    return "ddprun needs no etcd on one machine: leave the option out, or pass c10d";
  const std::string complaint = choice<&Config::rdzv_backend>(config, row, text);
  if (complaint.empty() || complaint.ends_with('?')) return complaint;
  return complaint + ". Plug-ins of Python's do not run here, as there is no Python in ddprun";
}

template <auto Member>
std::string host(Config& config, const OptionRow&, Text text) {
  if (text.empty()) return config.*Member = "", "";
  return store(read_host(text), config.*Member);
}

std::string endpoint(Config& config, const OptionRow&, Text text) {
  config.rdzv_endpoint = std::nullopt;
  config.further_endpoints.clear();
  if (text.empty()) return "";
  std::string complaint = store(read_endpoint(text.substr(0, text.find(','))), config.rdzv_endpoint);
  for (std::size_t comma = text.find(','); complaint.empty() && comma != text.npos; comma = text.find(',', comma + 1)) {
    const std::size_t end = std::min(text.find(',', comma + 1), text.size());
    complaint = store(read_endpoint(text.substr(comma + 1, end - comma - 1)), config.further_endpoints.emplace_back());
  }
  return complaint;
}

std::string store_ports(Config& config, const OptionRow&, Text text) {
  return store(read_port_range(text), config.store_ports);
}

std::string rdzv_conf(Config& config, const OptionRow&, Text text) {
  return store(read_rdzv_conf(text), config.rdzv_conf);
}

std::string prefix(Config& config, const OptionRow&, Text text) {
  return store(read_template(text, {"rank", "local_rank", "host", "hostname", "role", "role_name", "time"}),
               config.log_prefix);
}

std::string events(Config& config, const OptionRow&, Text text) {
  const bool file = text.starts_with("file:");
  if (file && text.size() == 5) return "it takes a path behind the colon, such as file:events.json";
  if (!file && text != "null" && text != "console")
    return "it takes null, console or file:PATH." + did_you_mean(text, {"null", "console"});
  config.events = file ? EventSink::file : text == "console" ? EventSink::console : EventSink::nowhere;
  config.event_file = file ? text.substr(5) : "";
  return {};
}

std::string run_id(Config& config, const OptionRow&, Text text) {
  if (text.find('/') != std::string::npos || text == "." || text == ".." || text.size() >= 200)
    return "it names a folder of logs, so it takes no '/' and at most 199 characters";
  return config.rdzv_id = text, "";
}

constexpr OptionRow kOptions[] = {
    // Workers
    {.name = "nproc-per-node",
     .group = Group::workers,
     .value = "N",
     .help = "workers on this machine: a number, cpu, gpu, or auto (GPUs, else CPUs)",
     .set = text<&Config::nproc_per_node>,
     .normally = "1",
     .choices = "cpu|gpu|auto",
     .brief = "workers: a number, cpu, gpu or auto (default 1)",
     .meant = "np,n,c,num-processes,num-gpus,gpus,workers,num-workers,nprocs",
     .more = "cpu counts the CPUs that ddprun may run on, gpu the NVIDIA devices that CUDA_VISIBLE_DEVICES leaves."},
    {.name = "module",
     .group = Group::workers,
     .help = "run PROGRAM as a Python module",
     .set = yes_or_no<&Config::module>,
     .letter = 'm',
     .brief = "run PROGRAM as a Python module",
     .more = "As python3 -u -m PROGRAM; PYTHON_EXEC in the environment names another interpreter."},
    {.name = "no-python",
     .group = Group::workers,
     .help = "exec PROGRAM as it is, even a .py file",
     .set = yes_or_no<&Config::no_python>,
     .more = "Without it a .py file, or a file without run permission, is given to python3 -u, and anything else is "
             "exec'd."},
    {.name = "run-path",
     .group = Group::workers,
     .help = "give PROGRAM to Python, whatever its name and permissions",
     .set = yes_or_no<&Config::run_path>,
     .more = "Each worker gets an interpreter of its own. It goes before --module and --no-python, as under torchrun."},
    {.name = "role",
     .group = Group::workers,
     .value = "NAME",
     .help = "name of these workers: ROLE_NAME, and in log prefixes",
     .set = text<&Config::role>,
     .normally = "default"},
    {.name = "virtual-local-rank",
     .group = Group::workers,
     .help = "LOCAL_RANK is 0 for all, and each sees one GPU: its entry of CUDA_VISIBLE_DEVICES",
     .set = yes_or_no<&Config::virtual_local_rank>,
     .more = "Where HIP_VISIBLE_DEVICES is set, its entry counts, in both variables."},
    {.name = "numa-binding",
     .group = Group::workers,
     .value = "KIND",
     .help = "bind each worker to the CPUs and memory near its GPU: none, node, socket, exclusive or core-complex",
     .set = choice<&Config::numa_binding>,
     .normally = "none",
     .choices = "none|node|socket|exclusive|core-complex",
     .more = "By CPU affinity and memory policy; the program numactl is not needed."},
    {.name = "omp-threads",
     .group = Group::workers,
     .value = "N",
     .help =
         "OMP_NUM_THREADS of each worker; auto divides the CPUs among them; left out: 1 where it is unset and there "
         "are several workers",
     .set = omp_threads,
     .choices = "auto"},

    // Job
    {.name = "nnodes",
     .group = Group::job,
     .value = "N",
     .help = "nodes of the job, or MIN:MAX with --rdzv-backend c10d",
     .set = text<&Config::nnodes>,
     .normally = "1",
     .meant = "num-nodes,num-machines,nodes,N"},
    {.name = "node-rank",
     .group = Group::job,
     .value = "R",
     .help = "which node this is, from 0; with c10d a wish",
     .set = whole<&Config::node_rank, 0, kAny>,
     .normally = "0",
     .meant = "machine-rank"},
    {.name = "standalone",
     .group = Group::job,
     .help = "this machine alone, whatever endpoint is named",
     .set = yes_or_no<&Config::standalone>},
    {.name = "rdzv-id",
     .group = Group::job,
     .value = "ID",
     .help = "name of the job (left out: a random one)",
     .set = run_id,
     .meant = "job-id,run-id"},
    {.name = "master-addr",
     .group = Group::job,
     .value = "HOST",
     .help = "MASTER_ADDR (127.0.0.1); of several nodes: the address of node 0",
     .set = host<&Config::master_addr>,
     .meant = "main-process-ip,hostname,host,master"},
    {.name = "master-port",
     .group = Group::job,
     .value = "PORT",
     .help = "port of the workers' store, 0 for a fresh one; of several nodes: where they meet (29500)",
     .set = whole<&Config::master_port, 0, kPortMax>,
     .normally = "0",
     .meant = "main-process-port,port"},
    {.name = "local-addr",
     .group = Group::job,
     .value = "HOST",
     .help = "address of this machine; MASTER_ADDR where nothing else names it",
     .set = host<&Config::local_addr>},
    {.name = "interface",
     .group = Group::job,
     .value = "NAME",
     .help = "network interface for the workers, as GLOO_ and NCCL_SOCKET_IFNAME",
     .set = text<&Config::interface>,
     .meant = "iface,ifname,nic,network-interface"},
    {.name = "rdzv-backend",
     .group = Group::job,
     .value = "NAME",
     .help = "static: so many nodes with fixed ranks; c10d: nodes may come and go",
     .set = backend,
     .normally = "static",
     .choices = "static|c10d"},
    {.name = "rdzv-endpoint",
     .group = Group::job,
     .value = "PLACE,...",
     .help = "HOST[:PORT], where nodes meet; with static: master-addr",
     .set = endpoint},
    {.name = "control-port",
     .group = Group::job,
     .value = "PORT",
     .help = "where the other nodes' agents listen, 0 for any free one",
     .set = whole<&Config::control_port, 0, kPortMax>,
     .normally = "0"},
    {.name = "rdzv-conf",
     .group = Group::job,
     .value = "K=V,...",
     .help = "settings of the rendezvous, such as join_timeout=600",
     .set = rdzv_conf,
     .more = "They are checked; one machine needs none of them. Keys: join_timeout, last_call_timeout, close_timeout, "
             "heartbeat_timeout, keep_alive_interval, "
             "keep_alive_max_attempt, read_timeout, timeout, is_host, store_type, rank."},

    // Access
    {.name = "store-ports",
     .group = Group::access,
     .value = "A-B",
     .help = "ports that the rounds' stores may take, behind a firewall",
     .set = store_ports,
     .meant = "port-range,ports",
     .more = "Each round takes another one of them, so name at least two. --master-port names the only one."},
    {.name = "store-proxy",
     .group = Group::access,
     .help = "reach the store through each node's own agent, as with a token",
     .set = yes_or_no<&Config::store_proxy>},
    {.name = "store-memory",
     .group = Group::access,
     .value = "SIZE",
     .help = "how much the store's keys and queues may hold: 512M, 4G, 0 any (left out: an eighth of the memory)",
     .set = store_memory,
     .more =
         "Of the machine's memory, or its control group's limit or ulimit -v where they are lower. A client that wants "
         "to add more is closed."},
    {.name = "store-users",
     .group = Group::access,
     .value = "WHOSE",
     .help = "whose processes on this machine may use the store: the user's own and root's, or any",
     .set = choice<&Config::store_users>,
     .normally = "own",
     .choices = "own|any",
     .more = "Any is for workers that run as another user than ddprun does, by sudo or a setuid program say."},
    {.name = "token-file",
     .group = Group::access,
     .value = "FILE",
     .help = "the secret that all nodes share; DDPRUN_TOKEN in the environment holds the secret itself",
     .set = text<&Config::token_file>,
     .completes = Completes::file,
     .meant = "token,secret,auth-token,token-path",
     .more =
         "At least 32 hex digits or 22 characters of base64, random; --make-token prints one. With it what nodes say "
         "to each other is encrypted, and nobody without it may join. Workers never see it."},
    {.name = "tls-cert",
     .group = Group::access,
     .value = "FILE",
     .help = "this node's certificate (PEM), instead of a token",
     .set = text<&Config::tls_cert>,
     .completes = Completes::file,
     .meant = "certificate,cert",
     .more =
         "Names in it do not matter: whoever has a certificate of the authority may join. Where it names key usages, "
         "it must name both server and client authentication."},
    {.name = "tls-key",
     .group = Group::access,
     .value = "FILE",
     .help = "the key of that certificate (PEM, without a passphrase)",
     .set = text<&Config::tls_key>,
     .completes = Completes::file},
    {.name = "tls-ca",
     .group = Group::access,
     .value = "FILE",
     .help = "the authority that signed the certificates of all nodes, and of nobody else (PEM)",
     .set = text<&Config::tls_ca>,
     .completes = Completes::file,
     .meant = "ca,cacert"},

    // Stopping and restarts
    {.name = "max-restarts",
     .group = Group::stopping,
     .value = "N",
     .help = "how often the workers start anew after a failure",
     .set = whole<&Config::max_restarts, 0, kAny>,
     .normally = "3",
     .brief = "restarts after failures (default 3)",
     .meant = "restarts,retries,max-retries",
     .more = "The same failure twice before any progress ends the job at once."},
    {.name = "stop-grace",
     .group = Group::stopping,
     .value = "TIME",
     .help = "how long workers may take from SIGTERM to SIGKILL",
     .set = stop_grace,
     .normally = "25",
     .alias = "shutdown-timeout",
     .also_in = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
     .brief = "from SIGTERM to SIGKILL (default 25 s)",
     .meant = "grace,grace-period,kill-timeout",
     .more = "Schedulers kill 30 s after they ask; 25 leaves time to end."},
    {.name = "stop-scope",
     .group = Group::stopping,
     .value = "WHOM",
     .help = "SIGTERM goes to the rank's process, to its group, or (auto) to the group where the program is a shell",
     .set = choice<&Config::stop_scope>,
     .normally = "auto",
     .choices = "auto|rank|group"},
    {.name = "peer-exit-timeout",
     .group = Group::stopping,
     .value = "TIME",
     .help = "how long others may go on after one ended well",
     .set = limit<&Config::peer_exit_timeout>,
     .normally = "off"},
    {.name = "max-run",
     .group = Group::stopping,
     .value = "TIME",
     .help = "end the job politely after this time",
     .set = limit<&Config::max_run>,
     .normally = "off",
     .meant = "time-limit,max-time,max-runtime"},
    {.name = "signals-to-handle",
     .group = Group::stopping,
     .value = "LIST",
     .help = "signals that end the job politely",
     .set = signals<&Config::signals_to_handle>,
     .normally = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
     .list = true},
    {.name = "preempt-signal",
     .group = Group::stopping,
     .value = "LIST",
     .help = "further signals: this machine is to be given back",
     .set = preempt_signals,
     .list = true,
     .more = "SIGUSR1 and SIGUSR2 otherwise pass through to the workers and stop nothing."},
    {.name = "exit-code",
     .group = Group::stopping,
     .value = "WHOSE",
     .help = "exit codes: ddprun's, torchrun's (0, 1, 2), or the first failed worker's own",
     .set = choice<&Config::exit_code>,
     .normally = "ddprun",
     .choices = "ddprun|torchrun|worker"},
    {.name = "core-dumps",
     .group = Group::stopping,
     .help = "let crashed workers dump core: slows the news of it",
     .set = yes_or_no<&Config::core_dumps>,
     .meant = "core,coredump,core-dump"},
    {.name = "cgroup",
     .group = Group::stopping,
     .help = "keep the workers in a control group, where one may be",
     .set = yes_or_no<&Config::cgroup>,
     .more = "It needs cgroup v2, and root or a delegated subtree."},
    {.name = "monitor-interval",
     .group = Group::stopping,
     .value = "TIME",
     .help = "accepted, without effect: ddprun polls nothing",
     .set = monitor_interval,
     .normally = "0.1"},

    // Logs
    {.name = "log-dir",
     .group = Group::logs,
     .value = "DIR",
     .help = "where log files lie, by run, round and rank",
     .set = text<&Config::log_dir>,
     .completes = Completes::folder,
     .brief = "keep the workers' output in files there",
     .meant = "logdir,logs,log-directory,output-dir",
     .more = "As DIR/<run id>/round-N/rank-R/stdout.log and stderr.log; DIR/latest points to the last run. /dev/null: "
             "no files at all, error files neither."},
    {.name = "redirects",
     .group = Group::logs,
     .value = "SPEC",
     .help = "into files: 0 nothing, 1 stdout, 2 stderr, 3 both; or by rank: 0:3,1-7:2,g8:1",
     .set = streams<&Config::redirects>,
     .normally = "0",
     .letter = 'r',
     .choices = "0|1|2|3",
     .brief = "1 stdout, 2 stderr, 3 both into files alone",
     .list = true,
     .more = "Plain numbers before the colon are local ranks, g8 is global rank 8; of two that fit a rank the last "
             "one counts."},
    {.name = "tee",
     .group = Group::logs,
     .value = "SPEC",
     .help = "as --redirects, and on the console, too, each line with a prefix",
     .set = streams<&Config::tee>,
     .normally = "0",
     .letter = 't',
     .choices = "0|1|2|3",
     .brief = "the same into files and, prefixed, the console",
     .list = true},
    {.name = "local-ranks-filter",
     .group = Group::logs,
     .value = "RANKS",
     .help = "only these ranks on the console: 0,2-5,g8 or none (left out: all)",
     .set = ranks,
     .list = true,
     .meant = "ranks,ranks-filter,filter"},
    {.name = "duplicate-stdout-filters",
     .group = Group::logs,
     .value = "LIST",
     .help = "copy tee'd lines that hold one of these texts into filtered_stdout.log",
     .set = filters<&Config::stdout_filters>,
     .list = true,
     .more = "A comma parts two texts, two commas are a comma in a text."},
    {.name = "duplicate-stderr-filters",
     .group = Group::logs,
     .value = "LIST",
     .help = "the same for stderr",
     .set = filters<&Config::stderr_filters>,
     .list = true},
    {.name = "log-prefix",
     .group = Group::logs,
     .value = "TEXT",
     .help = "before each tee'd line; ${rank}, ${local_rank}, ${host}, ${role}, ${role_name} and ${time} are known",
     .set = prefix,
     .normally = "[${role_name}${local_rank}]:",
     .alias = "log-line-prefix-template",
     .also_in = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
     .meant = "prefix"},
    {.name = "log-size",
     .group = Group::logs,
     .value = "SIZE",
     .help = "rotate a log file that grows beyond it: 500K, 100M, 2G; 0 never",
     .set = [](Config& config, const OptionRow&,
               Text text) { return store(read_byte_size(text), config.log_size_bytes_max); },
     .normally = "0"},
    {.name = "log-keep",
     .group = Group::logs,
     .value = "N",
     .help = "how many rotated files stay of each log",
     .set = whole<&Config::log_keep, 0, kKeepMax>,
     .normally = "3"},
    {.name = "log-layout",
     .group = Group::logs,
     .value = "WHOSE",
     .help = "whose folders and names below --log-dir",
     .set = choice<&Config::log_layout>,
     .normally = "ddprun",
     .choices = "ddprun|torchrun",
     .more = "torchrun's are DIR/<run id>_<random>/attempt_N/<local rank>/stdout.log and stderr.log."},

    // Reports
    {.name = "event-log-handler",
     .group = Group::reports,
     .value = "WHERE",
     .help = "what happens, as lines of JSON: null nowhere, console on stderr, or file:PATH",
     .set = events,
     .normally = "null",
     .choices = "null|console|file:",
     .meant = "events,event-log"},
    {.name = "verbose",
     .group = Group::reports,
     .help = "show every value in force, every event and action on stderr",
     .set = yes_or_no<&Config::verbose>,
     .letter = 'v',
     .also_in = "LOGLEVEL",
     .brief = "show values, events and actions on stderr",
     .meant = "debug",
     .more = "LOGLEVEL=INFO or DEBUG in the environment means the same."},

    // ddprun itself
    {.name = "config",
     .group = Group::ddprun,
     .value = "FILE",
     .help = "read options from a TOML file: max-restarts = 5",
     .completes = Completes::file,
     .brief = "read options from a TOML file",
     .meant = "config-file,conf",
     .more = "The environment and the command line go over it. See CONFIGURATION FILE."},
    {.name = "dry-run",
     .group = Group::ddprun,
     .help = "show what each rank would get, and start nothing",
     .set = yes_or_no<&Config::dry_run>,
     .brief = "show what each rank would get, start nothing",
     .more = "Its argv, environment difference, CPU set and log files. No folder is made."},
    {.name = "print-config",
     .group = Group::ddprun,
     .help = "show every value and where it came from, as TOML that --config reads",
     .set = yes_or_no<&Config::print_config>,
     .meant = "show-config"},
    {.name = "make-token", .group = Group::ddprun, .help = "print a new token for --token-file"},
    {.name = "print-completion",
     .group = Group::ddprun,
     .value = "SHELL",
     .help = "print the completion of ddprun for bash, zsh or tcsh",
     .set = choice_without_effect,
     .choices = "bash|zsh|tcsh",
     .meant = "completion,shell-completion"},
    {.name = "help",
     .group = Group::ddprun,
     .value = "GROUP",
     .help = "the options most needed, or all of a group",
     .letter = 'h',
     .choices = "workers|job|access|stopping|logs|reports|ddprun|python"},
    {.name = "version", .group = Group::ddprun, .help = "say which ddprun this is", .letter = 'V'},

    // Of Python only
    {.name = "start-method",
     .group = Group::python,
     .value = "HOW",
     .help = "accepted, without effect: ddprun execs each worker, as torchrun does with scripts",
     .set = choice_without_effect,
     .choices = "spawn|fork|forkserver"},
    {.name = "use-env",
     .group = Group::python,
     .help = "accepted, without effect: ranks are always in the environment, never an argument --local-rank",
     .set = flag_without_effect},
    {.name = "logs-specs",
     .group = Group::python,
     .value = "NAME",
     .help = "a plug-in of Python's for the layout of logs",
     .set = choice_without_effect,
     .choices = "default",
     .refusal =
         "names a plug-in of Python's for logs, and there is no Python in ddprun, only 'default': use --log-dir, "
         "--log-layout, --redirects and --tee instead."},

    {.name = "generate", .group = Group::hidden, .value = "WHAT", .help = "man", .choices = "man"},
};

constexpr GroupTitle kGroups[] = {
    {Group::workers, "workers", "how many, how they are started, on which CPUs"},
    {Group::job, "job", "its name, addresses and nodes"},
    {Group::access, "access", "who may join the job: a token, or certificates"},
    {Group::stopping, "stopping", "restarts, grace, limits, signals, exit codes"},
    {Group::logs, "logs", "files, console, prefixes, filters, rotation"},
    {Group::reports, "reports", "events as JSON, verbosity"},
    {Group::ddprun, "ddprun", "configuration file, dry run, help"},
    {Group::python, "python", "what torchrun has for Python only"},
};

bool has_name(const OptionRow& row, const std::string& dashed) {
  return dashed == row.name || (*row.alias && dashed == row.alias);
}

}  // namespace

std::span<const OptionRow> options() { return kOptions; }
std::span<const GroupTitle> groups() { return kGroups; }

const OptionRow& option(const std::string& name) {
  const OptionRow* found = find_option(name);
  check(found, "that the table has every option the program asks for");
  return *found;
}

const OptionRow* find_option(const std::string& name) {
  const std::string dashed = with_dashes(name);
  for (const OptionRow& row : kOptions)
    if (has_name(row, dashed)) return &row;
  return nullptr;
}

std::vector<const OptionRow*> abbreviated(const std::string& name) {
  const std::string dashed = with_dashes(name);
  std::vector<const OptionRow*> found;
  for (const OptionRow& row : kOptions)
    if (row.group != Group::hidden &&
        (std::string_view(row.name).starts_with(dashed) || std::string_view(row.alias).starts_with(dashed)))
      found.push_back(&row);
  return found;
}

const OptionRow* nearest_option(const std::string& name) {
  const std::string dashed = with_dashes(name);
  std::vector<std::string> names;
  for (const OptionRow& row : kOptions) {
    const std::vector<std::string> meant = split(row.meant, ',');
    if (!dashed.empty() && std::find(meant.begin(), meant.end(), dashed) != meant.end()) return &row;
    if (row.group == Group::hidden) continue;
    names.push_back(row.name);
    if (*row.alias) names.push_back(row.alias);
  }
  const std::string near = nearest(dashed, names);
  return near.empty() ? nullptr : find_option(near);
}

bool in_file(const OptionRow& row) { return row.group < Group::ddprun; }

bool in_environment(const OptionRow& row) {
  const std::string name = row.name;
  return row.group != Group::hidden && name != "help" && name != "version" && name != "make-token" &&
         name != "print-completion";
}

std::string environment_twin(const std::string& name) { return "PET_" + upper_case(with_underscores(name)); }

std::string refusal(const Setting& setting, const std::string& complaint) {
  if (*setting.option->refusal) return subject(setting) + " " + setting.option->refusal;
  return nonsense(subject(setting), setting.text, complaint);
}

}  // namespace ddprun
