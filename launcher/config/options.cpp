#include "launcher/config/options.h"

#include <csignal>

#include "launcher/config/config.h"
#include "launcher/config/exit_codes.h"
#include "launcher/config/values.h"
#include "launcher/settings/member.h"
#include "launcher/ssh/ssh_command.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using namespace settings;
using agent::LogOptions;
using agent::MetricsOptions;
using rendezvous::RestartPolicy;
using rendezvous::RoundPolicy;

constexpr double kKeepMax = 1'000;
constexpr int kSparesMax = 1'000;
constexpr int kThreadsMax = 4'096;
constexpr int kExitCodeMax = 255;
constexpr auto kGraceMax = std::chrono::hours(24);

using Text = const std::string&;

// A parser of the whole text, for one member.
template <auto read, auto... Path>
constexpr settings::Member read_by() {
  return {[](void* config, const Option&, Text text) { return assign(read(text), member_of<Path...>(config)); }};
}

// One of the functions below: it stores the value in the Config, or returns what is wrong with the text.
template <std::string (*set)(Config&, Text)>
constexpr settings::Member custom() {
  return {[](void* config, const Option&, Text text) { return set(*static_cast<Config*>(config), text); }};
}

std::string preempt_signals(Config& config, Text text) {
  if (!text.empty()) return assign(read_signals(text), config.preempt_signals);
  return config.preempt_signals.clear(), "";
}

// The two that schedulers and loops around ddprun know: start it again, and ended by SIGTERM.
std::string exit_on_preempt(Config& config, Text text) {
  config.exit_on_preempt = std::nullopt;
  if (text == "auto") return {};
  if (text != "75" && text != "143") return "it takes 75, 143, or auto";
  config.exit_on_preempt = text == "75" ? kRequeue : kInterrupted + SIGTERM;
  return {};
}

std::string preempt_exit_code(Config& config, Text text) {
  config.stop.preempt_exit_code = std::nullopt;
  if (text == "off") return {};
  const auto code = whole_text<int>(text);
  if (!code || *code < 1 || *code > kExitCodeMax)
    return "it takes a whole number from 1 to " + std::to_string(kExitCodeMax) + ", or off for none";
  if (*code == 1) return "1 is the exit code of any error, of an exception in Python for example: choose another one";
  if (*code == kUsage || *code == kUnsaved || *code == kDoNotRequeue)
    return text + " already has a meaning for ddprun, that no restart helps: choose another one";
  config.stop.preempt_exit_code = code;
  return {};
}

std::string without_blanks(std::string text) {
  std::erase(text, ' ');
  return text;
}

template <auto Member>
std::string streams(Config& config, Text text) {
  const std::string complaint = assign(agent::parse_stream_spec(without_blanks(text)), config.logs.*Member);
  if (text.empty() || !complaint.starts_with("'' is ")) return complaint;
  return "a value is missing: it takes RANK:VALUE,RANK:VALUE, and VALUE is one of" +
         complaint.substr(std::string_view("'' is not one of").size());
}

std::string ranks(Config& config, Text text) {
  return assign(agent::parse_rank_set(without_blanks(text)), config.logs.console_ranks);
}

// A time above zero, or "off".
template <auto... Path>
std::string limit(Config& config, Text text) {
  auto& value = follow<Path...>(config);
  value = std::nullopt;
  if (text == "off" || text == "0") return {};
  std::string complaint = assign(read_duration(text), value);
  return complaint.empty() ? "" : complaint + ", or off for none";
}

std::string stop_grace(Config& config, Text text) {
  Duration grace{};
  if (std::string complaint = assign(read_duration(text), grace); !complaint.empty()) return complaint;
  if (grace > kGraceMax) return "it takes at most a day";
  config.stop.stop_grace = grace;
  return {};
}

std::string exclude_after(Config& config, Text text) {
  if (text == "off" || text == "0") return config.rounds.exclusion.failures = 0, "";
  rendezvous::RestartLimit limit;
  const std::string complaint = assign(read_restart_limit(text), limit);
  if (!complaint.empty() || limit.most == 0) return "it takes a number of failures, \"5 in 2h\", or off";
  config.rounds.exclusion.failures = limit.most;
  if (limit.within) config.rounds.exclusion.within = *limit.within;
  return {};
}

std::string exclude_for(Config& config, Text text) {
  Duration time{};
  if (std::string complaint = assign(read_duration(text), time); !complaint.empty()) return complaint;
  if (time <= Duration::zero() || time > rendezvous::kLimitWindowMax) return "it takes a time above 0, at most 7d";
  return config.rounds.exclusion.lasts = time, "";
}

// "true" is the option alone.
std::string watch(Config& config, Text text) {
  if (text == "see") return config.watch = WatchMode::see, "";
  if (text == "act" || text == "true") return config.watch = WatchMode::act, "";
  if (text == "off" || text == "false") return config.watch = WatchMode::off, "";
  return "it takes see, act or off";
}

std::string preemption_probe(Config& config, Text text) {
  if (text.find_first_not_of(" \t") == std::string::npos) return "it takes a file or a shell command";
  return config.preemption_probe = text, "";
}

std::string memory_snapshots(Config& config, Text text) {
  if (!assign(read_byte_size(text), config.memory_snapshots).empty())
    return "it takes a size such as 500M or 2G, or 0 for none";
  return {};
}

std::string monitor_interval(Config&, Text text) {
  Duration ignored{};
  if (std::string complaint = assign(read_duration(text), ignored); !complaint.empty()) return complaint;
  return ignored > Duration::zero() ? "" : "it takes a time above 0";
}

std::string omp_threads(Config& config, Text text) {
  if (text == "auto") return config.omp_threads = kAutoThreads, "";
  if (const auto threads = whole_text<int>(text); threads && *threads >= 1 && *threads <= kThreadsMax)
    return config.omp_threads = threads, "";
  return "it takes a whole number from 1 to " + std::to_string(kThreadsMax) + ", or auto";
}

std::string backend(void* config, const Option& option, Text text) {
  const std::string complaint =
      at<&Config::rdzv_backend>().set(config, option, text == "etcd-v2" ? std::string("etcd") : text);
  if (complaint.empty() || complaint.ends_with('?')) return complaint;
  return complaint + ". Python plug-ins do not work, as ddprun contains no Python";
}

template <auto Member>
std::string host(Config& config, Text text) {
  if (text.empty()) return config.*Member = "", "";
  return assign(read_host(text), config.*Member);
}

std::string endpoint(Config& config, Text text) {
  config.rdzv_endpoint = std::nullopt;
  config.further_endpoints.clear();
  config.endpoint_scheme.clear();
  if (text.empty()) return "";
  if (text.find('@') != text.npos) return kHoldsUser;
  for (std::string& place : split(text, ',')) {
    const std::string scheme = take_scheme(place);
    if (!scheme.empty() && !config.endpoint_scheme.empty() && scheme != config.endpoint_scheme)
      return "it has http:// and https://: all places take the same";
    if (!scheme.empty()) config.endpoint_scheme = scheme;
    Endpoint read;
    if (std::string complaint = assign(read_endpoint(place), read); !complaint.empty()) return complaint;
    if (config.rdzv_endpoint)
      config.further_endpoints.push_back(read);
    else
      config.rdzv_endpoint = read;
  }
  return "";
}

std::string hosts(Config& config, Text text) { return assign(read_host_list(text), config.hosts); }

std::string ssh(Config& config, Text text) { return assign(read_command_words(text), config.ssh); }

std::string prefix(Config& config, Text text) {
  return assign(read_template(text, {"rank", "local_rank", "host", "hostname", "role", "role_name", "time"}),
                config.logs.prefix);
}

std::string events(Config& config, Text text) {
  const bool file = text.starts_with("file:");
  if (file && text.size() == 5) return "it takes a path behind the colon, such as file:events.json";
  if (!file && text != "null" && text != "console") {
    const std::string hint = did_you_mean(text, {"null", "console"});
    return "it takes null, console or file:PATH" + (hint.empty() ? "" : "." + hint);
  }
  config.events = file ? EventSink::file : text == "console" ? EventSink::console : EventSink::nowhere;
  config.event_file = file ? text.substr(5) : "";
  return {};
}

std::string metrics_place(Config& config, Text text) {
  Endpoint place;
  if (std::string complaint = assign(read_listen_place(text), place); !complaint.empty()) return complaint;
  config.metrics.address = place.host;
  config.metrics.port = static_cast<std::uint16_t>(*place.port);
  return {};
}

std::string run_id(Config& config, Text text) {
  if (text.find('/') != std::string::npos || text == "." || text == ".." || text.size() >= 200)
    return "it names a folder of logs, so it takes no '/' and at most 199 characters";
  return config.rdzv_id = text, "";
}

constexpr Group kWorkers{"workers", "how many, how they are started, on which CPUs"};
constexpr Group kJob{"job", "its name, addresses and nodes"};
constexpr Group kHosts{"hosts", "several machines from one command, by ssh"};
constexpr Group kAccess{"access", "who may join the job: a token, or certificates"};
constexpr Group kRestarts{"restarts", "after failures: how many, of which class, for which job"};
constexpr Group kStopping{"stopping", "grace, hangs, signals, exit codes"};
constexpr Group kPreemption{"preemption", "how it is noticed, time limit, exit codes"};
constexpr Group kLogs{"logs", "files, console, prefixes, filters, rotation"};
constexpr Group kReports{"reports", "events as JSON, metrics, stragglers, verbosity"};
constexpr Group kItself{"ddprun", "configuration file, dry run, help", Group::actions};
constexpr Group kWithoutEffect{"torchrun", "torchrun's options that have no effect here", Group::foreign};
constexpr Group kHidden{"hidden", "", Group::hidden};
constexpr const Group* kGroups[] = {&kWorkers,    &kJob,  &kHosts,   &kAccess, &kRestarts,     &kStopping,
                                    &kPreemption, &kLogs, &kReports, &kItself, &kWithoutEffect};

constexpr Option kOptions[] = {
    // Workers
    row(kWorkers, "nproc-per-node", "N", "workers on this machine: a number, cpu, gpu, or auto (GPUs, else CPUs)",
        read_by<read_worker_count, &Config::nproc_per_node>(),
        {.default_value = "1",
         .choices = "cpu|gpu|auto",
         .brief = "workers: a number, cpu, gpu or auto (default 1)",
         .synonyms = "np,n,c,num-processes,num-gpus,gpus,workers,num-workers,nprocs,multi-gpu,gpu-ids,ppn,npernode,"
                     "ntasks-per-node,tasks-per-node",
         .more = "cpu counts the CPUs that ddprun may use, by affinity and by its control groups' quota; gpu (or xpu) "
                 "the GPUs of NVIDIA, else of AMD, else of Intel, that CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES with "
                 "ROCR_VISIBLE_DEVICES, or ZE_AFFINITY_MASK leave. A processor's own GPU is not counted."}),
    row(kWorkers, "module", "", "run PROGRAM as a Python module", at<&Config::module>(),
        {.letter = 'm',
         .more =
             "As python3 -u -m PROGRAM. PYTHON_EXEC in the environment names another interpreter; --print-config says "
             "which one it is, and why."}),
    row(kWorkers, "no-python", "", "exec PROGRAM as it is, even a .py file", at<&Config::no_python>(),
        {.more =
             "Without it a .py file, a file without run permission, or a folder with __main__.py is given to python3 "
             "-u, and anything else is exec'd; a file without run permission whose first line is for a shell is "
             "refused."}),
    row(kWorkers, "run-path", "", "give PROGRAM to Python, whatever its name and permissions", at<&Config::run_path>(),
        {.more = "Each worker gets an interpreter of its own. It goes before --module and --no-python, as under "
                 "torchrun."}),
    row(kWorkers, "prefork", "",
        "fork the workers from a process that has loaded their libraries, also after a failure", at<&Config::prefork>(),
        {.more =
             "Of a Python program, or one that calls ddprun::prefork(), as train does. Where a fork is not possible, "
             "workers are started as without it, and a sentence says why."}),
    row(kWorkers, "prefork-import", "MODULES",
        "with --prefork: Python modules to import before forking, besides PyTorch's", at<&Config::prefork_import>(),
        {.more = "Comma-separated."}),
    row(kWorkers, "prefork-learn", "FILE", "the same, those that it imported last time", at<&Config::prefork_learn>(),
        {.completes = Completes::file,
         .more = "The first worker writes them at its end, those of installed packages; the next start reads them. One "
                 "that starts a thread, or fails, gets a '!' and is not imported again."}),
    row(kWorkers, "role", "NAME", "name of these workers: ROLE_NAME, and in log prefixes", at<&Config::role>()),
    row(kWorkers, "virtual-local-rank", "",
        "LOCAL_RANK is 0 for all, and each sees one GPU: its entry of CUDA_VISIBLE_DEVICES",
        at<&Config::virtual_local_rank>(),
        {.more = "Where HIP_VISIBLE_DEVICES is set, its entry counts, in both variables; so does Slurm's "
                 "ROCR_VISIBLE_DEVICES, and ZE_AFFINITY_MASK for GPUs of Intel."}),
    row(kWorkers, "numa-binding", "KIND",
        "bind each worker to the CPUs and memory near its GPU: none, node, socket, exclusive or core-complex",
        at<&Config::numa_binding>(),
        {.choices = "none|node|socket|exclusive|core-complex",
         .synonyms = "bind-to,map-by",
         .more = "By CPU affinity and memory policy; the program numactl is not needed."}),
    row(kWorkers, "omp-threads", "N",
        "OMP_NUM_THREADS of each worker; auto divides the CPUs among them; left out: 1 where it is unset and there are "
        "several workers",
        custom<omp_threads>(), {.choices = "auto", .synonyms = "num-cpu-threads-per-process"}),
    // Job
    row(kJob, "nnodes", "N", "nodes of the job, or MIN:MAX with --rdzv-backend c10d",
        read_by<read_node_counts, &Config::nnodes>(),
        {.default_value = "1", .synonyms = "num-nodes,num-machines,nodes,N"}),
    row(kJob, "spares", "N", "more nodes, to replace lost ones", at<&Config::rounds, &RoundPolicy::spares>(),
        {.synonyms = "spare-nodes,num-spares,standby",
         .more =
             "Start ddprun on --nnodes + N machines; in a static job their node ranks go up to that. Where --nnodes "
             "comes from srun or from a list of hosts, N of those nodes are the spares.",
         .min = 0,
         .max = kSparesMax}),
    row(kJob, "node-rank", "R", "this node's rank; with c10d a preference", at<&Config::node_rank>(),
        {.synonyms = "machine-rank", .min = 0}),
    row(kJob, "standalone", "", "use this machine alone, ignoring any endpoint", at<&Config::standalone>()),
    row(kJob, "rdzv-id", "ID", "name of the job (left out: a random one)", custom<run_id>(),
        {.synonyms = "job-id,run-id"}),
    row(kJob, "master-addr", "HOST", "MASTER_ADDR (127.0.0.1); with several nodes: the address of node 0",
        custom<host<&Config::master_addr>>(), {.synonyms = "main-process-ip,hostname,master"}),
    row(kJob, "master-port", "PORT",
        "port of the workers' store, 0 for any free one; with several nodes: where they meet (29500)",
        at<&Config::master_port>(), {.synonyms = "main-process-port,port", .min = 0, .max = kPortMax}),
    row(kJob, "local-addr", "HOST", "this machine's address, and MASTER_ADDR by default",
        custom<host<&Config::local_addr>>()),
    row(kJob, "interface", "NAME", "network interface for the workers, as GLOO_ and NCCL_SOCKET_IFNAME",
        at<&Config::interface>(), {.synonyms = "iface,ifname,nic,network-interface"}),
    row(kJob, "rdzv-backend", "NAME",
        "static: a fixed number of nodes with fixed ranks; c10d, etcd: nodes may come and go",
        {backend, at<&Config::rdzv_backend>().get},
        {.choices = "static|c10d|etcd",
         .more =
             "With etcd the nodes find each other at an etcd cluster, and the job outlives any of them (docs/etcd.md). "
             "etcd-v2 means the same: API v3 is used."}),
    row(kJob, "rdzv-endpoint", "PLACE,...", "where nodes meet, HOST[:PORT]; static: master-addr", custom<endpoint>(),
        {.more = "Of etcd its members, each also as http://HOST:PORT or https://HOST:PORT; the port is 2379 where it "
                 "is left out."}),
    row(kJob, "control-port", "PORT", "where the other nodes' agents listen, 0 for any free one",
        at<&Config::control_port>(), {.min = 0, .max = kPortMax}),
    row(kJob, "rdzv-conf", "K=V,...", "settings of the rendezvous, such as join_timeout=600",
        read_by<read_rdzv_conf, &Config::rdzv_conf>(),
        {.more = "They are checked; one machine needs none of them. Keys: join_timeout, last_call_timeout, "
                 "close_timeout, heartbeat_timeout, keep_alive_interval, keep_alive_max_attempt, read_timeout, "
                 "timeout, is_host, store_type, rank. For etcd: protocol (http or https), cacert, cert and key "
                 "(files), user and password_file, etcd_prefix (/ddprun), silent_round (120 s without news of a round "
                 "until it is taken for dead), keep (7d; of a job that may start again)."}),
    row(kJob, "scheduler", "WHICH", "take values left out from Slurm's step or the pod: auto, none",
        at<&Config::scheduler>(),
        {.choices = "auto|none",
         .synonyms = "cluster,slurm",
         .more =
             "In a step of srun: --nnodes, --node-rank, --nproc-per-node (its GPUs), --rdzv-id (the job's id), and as "
             "meeting place the first node, at port 20000 + (job + 997 * step) mod 9000. In a pod of an Indexed Job "
             "or JobSet, where --nnodes is given: --node-rank from JOB_COMPLETION_INDEX, and as meeting place the "
             "first pod. --print-config shows what was taken, and from which variable."}),
    // Hosts
    row(kHosts, "hosts", "LIST", "start the job on these machines by ssh: [USER@]HOST[:WORKERS],...", custom<hosts>(),
        {.list = true,
         .synonyms = "host,H,hostlist,host-list,machines,machine-list,include",
         .more = "Node ranks are in the order of the list; a host without a number of workers has --nproc-per-node. "
                 "ddprun has to be there, in the same version, at the same path or in PATH. The hosts get the "
                 "command's options, its working folder and configuration file, a token, and of the environment PATH, "
                 "LD_LIBRARY_PATH, virtual environments, and variables that begin with PYTHON, TORCH, NCCL_, GLOO_, "
                 "OMP_ and the like. Nothing starts before all are ready."}),
    row(kHosts, "hostfile", "FILE", "the same, a host per line: HOST, HOST:4 or HOST slots=4", at<&Config::hostfile>(),
        {.completes = Completes::file,
         .synonyms = "host-file,machinefile,machine-file,hosts-file",
         .more = "As for Open MPI, MPICH, DeepSpeed, PBS and Slurm; '#' begins a comment."}),
    row(kHosts, "ssh", "COMMAND", "how to reach them, such as \"ssh -p 2222 -i KEY\"", custom<ssh>(),
        {.default_value = "ssh",
         .synonyms = "rsh,rsh-agent,launcher-agent,ssh-command,ssh-args",
         .more = "Your own configuration of ssh counts; passwords are not asked for, so a key or an agent is needed."}),
    row(kHosts, "sync", "DIR", "copy this folder to the same path on the hosts first, by rsync", at<&Config::sync>(),
        {.completes = Completes::folder,
         .synonyms = "copy-files,rsync,sync-dir",
         .more = "For hosts without a shared disk: what differs, without .git and what .gitignore names. Nothing there "
                 "is deleted, and no file that is newer there is replaced."}),
    row(kHosts, "ssh-fan-out", "N", "machines that are reached directly; each of them reaches others in turn",
        at<&Config::ssh_fan_out>(), {.synonyms = "fan-out,fanout,tree-width", .min = 1, .max = kHostsMax}),
    // Access
    row(kAccess, "store-ports", "A-B", "ports that the rounds' stores may use, behind a firewall",
        read_by<read_port_range, &Config::store_ports>(),
        {.synonyms = "port-range,ports",
         .more = "Each round uses another one of them, so name at least two. --master-port names a single one."}),
    row(kAccess, "store-proxy", "", "reach the store through each node's own agent, as with a token",
        at<&Config::store_proxy>()),
    row(kAccess, "store-memory", "SIZE",
        "limit for the store's keys and queues: 512M, 4G, 0 for none (left out: an eighth of the memory)",
        read_by<read_byte_size, &Config::store_memory>(),
        {.more = "Of the machine's memory, or its control group's limit or ulimit -v where they are lower. The "
                 "connection of a client that wants to add more is closed."}),
    row(kAccess, "store-users", "WHOSE",
        "whose processes on this machine may use the store: the user's own and root's, or any",
        at<&Config::store_users>(),
        {.choices = "own|any",
         .more = "Any is for workers that run as another user than ddprun, by sudo or a setuid program for example."}),
    row(kAccess, "token-file", "FILE",
        "the secret that all nodes share; DDPRUN_TOKEN in the environment holds the secret itself",
        at<&Config::token_file>(),
        {.completes = Completes::file,
         .synonyms = "token,secret,auth-token,token-path",
         .more = "At least 32 hex digits or 22 characters of base64, random; --make-token prints one. With it the "
                 "traffic between nodes is encrypted, and only nodes that have it can join. Workers never see it."}),
    row(kAccess, "tls-cert", "FILE", "this node's certificate (PEM), instead of a token", at<&Config::tls_cert>(),
        {.completes = Completes::file,
         .synonyms = "certificate,cert",
         .more = "Its names are not checked: every node with a certificate of the authority can join. If it lists key "
                 "usages, both server and client authentication must be among them."}),
    row(kAccess, "tls-key", "FILE", "the key of that certificate (PEM, without a passphrase)", at<&Config::tls_key>(),
        {.completes = Completes::file}),
    row(kAccess, "tls-ca", "FILE", "the authority that signed the certificates of all nodes, and no others (PEM)",
        at<&Config::tls_ca>(), {.completes = Completes::file, .synonyms = "ca,cacert"}),
    // Restarts
    row(kRestarts, "max-restarts", "N", "how often the workers are restarted after a failure",
        at<&Config::rounds, &RoundPolicy::restarts, &RestartPolicy::max_restarts>(),
        {.brief = "restarts after failures (default 3)",
         .synonyms = "restarts,retries,max-retries",
         .more = "The same failure twice before any progress ends the job at once.",
         .min = 0}),
    row(kRestarts, "restart-limits", "K=V,...", "limits of their own for classes of failures: \"crash=5 in 1h,hang=2\"",
        read_by<read_restart_limits, &Config::rounds, &RoundPolicy::restarts, &RestartPolicy::limits>(),
        {.list = true,
         .synonyms = "limits,budgets",
         .more = "Classes without one share --max-restarts; of those out-of-memory has one restart. Classes: usage, "
                 "error, crash, out-of-memory, hang, start, unkillable, lost-node (unlimited, if not named)."}),
    row(kRestarts, "restart-credit", "TIME", "running with progress that earns one restart back, or off",
        custom<limit<&Config::rounds, &RoundPolicy::restarts, &RestartPolicy::credit_after>>(),
        {.default_value = "1h"}),
    row(kRestarts, "memory-snapshots", "SIZE",
        "keep the newest snapshots also in memory, in so much on each node, and restart from there",
        custom<memory_snapshots>(),
        {.synonyms = "in-memory-snapshots,memory-checkpoints",
         .more = "Two snapshots have to fit: train takes one after each step, programs of the C++ library by "
                 "save_in_memory(), Python programs by ddprun.channel.keep(). Files are written as ever."}),
    row(kRestarts, "state-dir", "DIR",
        "folder that keeps the job's restarts from one start to the next (with --rdzv-id); best one all nodes share",
        at<&Config::state_dir>(),
        {.completes = Completes::folder,
         .synonyms = "state,state-folder",
         .more = "After three starts in a row with the same failure, before any progress, ddprun ends with 93: do not "
                 "start it again."}),
    row(kRestarts, "health-limits", "K=V,...",
        "what this machine needs to take part: disk=10G, gpu-memory=90%, clock=1s",
        read_by<read_machine_limits, &Config::machine_limits>(),
        {.list = true,
         .more =
             "Free space in the working folder, --log-dir and --state-dir; free memory on each NVIDIA GPU; the "
             "kernel's bound of the error of its clock, which an NTP daemon keeps. Checked when --health-check is."}),
    row(kRestarts, "health-check", "COMMAND",
        "a shell command that succeeds where this machine may take part; its last line says why not",
        at<&Config::health_check>(),
        {.more = "It runs before the first round, and again after a worker failed here; after 60 s it has failed. A "
                 "machine that fails it is in no round, and is checked again after 1 s, then later, up to 60 s."}),
    row(kRestarts, "exclude-after", "N",
        "leave a machine out after N failures of workers there, while enough others "
        "are there; off: only where a rule says so",
        custom<exclude_after>(),
        {.default_value = "3 in 1h", .synonyms = "exclude", .more = "\"5 in 2h\" counts the failures of two hours."}),
    row(kRestarts, "exclude-for", "TIME", "how long", custom<exclude_for>(), {.default_value = "1h"}),
    row(kRestarts, "exclude-file", "FILE", "write the names of those machines there, for sbatch --exclude=$(cat FILE)",
        at<&Config::exclude_file>(), {.completes = Completes::file}),
    // Stopping
    row(kStopping, "stop-grace", "TIME", "how long workers may take from SIGTERM to SIGKILL", custom<stop_grace>(),
        {.default_value = "25",
         .alias = "shutdown-timeout",
         .also_in = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
         .brief = "from SIGTERM to SIGKILL (default 25 s)",
         .synonyms = "grace,grace-period,kill-timeout",
         .more = "Many schedulers send SIGKILL 30 s after SIGTERM; 25 leaves time to exit."}),
    row(kStopping, "hang-timeout", "TIME",
        "how long a worker that reports beats may stand still: auto (learned), off, a time, or by phase",
        read_by<read_hang_limits, &Config::hang_limits>(),
        {.default_value = "auto",
         .choices = "auto|off",
         .list = true,
         .synonyms = "hang,hang-limits,stall-timeout",
         .more = "\"save=20m,wait=off\" sets a limit for a phase: start, load, compute, wait, save, evaluate, end. "
                 "Learned limits are three median steps or twice what a part of a step has taken, at least 2 s, after "
                 "ten steps; ten minutes for what has not been seen yet."}),
    row(kStopping, "stop-scope", "WHOM",
        "SIGTERM goes to the rank's process, to its group, or (auto) also to what a shell has started that is the rank",
        at<&Config::stop_scope>(), {.choices = "auto|rank|group"}),
    row(kStopping, "in-process", "", "workers that have lost a peer go on in the next round, as the same processes",
        at<&Config::in_process>(),
        {.more = "Those of train, and of programs that call ddprun::Worker::rejoin(): they keep what they have loaded, "
                 "and load the newest snapshot, best from memory. Who does not come to wait within 3 s is ended and "
                 "started again."}),
    row(kStopping, "peer-exit-timeout", "TIME", "time limit for the other workers after the first one's success",
        custom<limit<&Config::stop, &agent::StopPolicy::peer_exit_timeout>>(), {.default_value = "off"}),
    row(kStopping, "signals-to-handle", "LIST", "signals that stop the job gracefully",
        read_by<read_signals, &Config::signals_to_handle>(),
        {.default_value = "SIGTERM,SIGINT,SIGHUP,SIGQUIT", .list = true}),
    row(kStopping, "exit-code", "WHOSE", "exit codes: ddprun's, torchrun's (0, 1, 2), or the first failed worker's own",
        at<&Config::exit_code>(), {.choices = "ddprun|torchrun|worker"}),
    row(kStopping, "core-dumps", "", "let crashed workers dump core: delays detection", at<&Config::core_dumps>(),
        {.synonyms = "core,coredump,core-dump"}),
    row(kStopping, "cgroup", "", "keep the workers in a control group, where possible", at<&Config::cgroup>(),
        {.more = "It needs cgroup v2, and root or a delegated subtree."}),
    // Preemption
    row(kPreemption, "max-run", "TIME", "stop the job gracefully after this time", custom<limit<&Config::max_run>>(),
        {.default_value = "off", .synonyms = "time-limit,max-time,max-runtime"}),
    row(kPreemption, "preempt-signal", "LIST", "further signals: this machine is being preempted",
        custom<preempt_signals>(),
        {.list = true, .more = "SIGUSR1 and SIGUSR2 are otherwise forwarded to the workers and stop nothing."}),
    row(kPreemption, "preemption-probe", "WHAT",
        "a file whose existence, or a shell command whose exit code 0, says that this machine is being preempted",
        custom<preemption_probe>(),
        {.completes = Completes::file,
         .synonyms = "spot-probe,preempt-probe",
         .more = "Then as with SIGTERM. A file is an absolute path, or one that begins with ./, without blanks, that "
                 "cannot be run; it is looked for each second. A command runs every 5 s, for 10 s at most, and its "
                 "output is not shown. Each node has its own."}),
    row(kPreemption, "preempt-exit-code", "N", "a worker's exit code that says: I was preempted, and have saved",
        custom<preempt_exit_code>(),
        {.default_value = "off",
         .more = "For workers without the worker channel. One that exits with it by itself announces a preemption: the "
                 "others are asked to save, and no failure is reported. When all that were asked exit with it, nothing "
                 "is lost."}),
    row(kPreemption, "exit-on-preempt", "CODE",
        "exit code after a preemption: 75, 143, or auto: 75 if nothing is lost, else 143", custom<exit_on_preempt>(),
        {.default_value = "auto",
         .choices = "75|143|auto",
         .more = "0 stays where the run had already finished, and 130 after Ctrl-C. It goes before --exit-code."}),
    // Logs
    row(kLogs, "log-dir", "DIR", "folder of the log files, by run, round and rank",
        at<&Config::logs, &LogOptions::log_dir>(),
        {.completes = Completes::folder,
         .brief = "keep the workers' output in files there",
         .synonyms = "logdir,logs,log-directory,output-dir,output-filename",
         .more = "As DIR/<run id>/round-N/rank-R/stdout.log and stderr.log; DIR/latest points to the last run. "
                 "/dev/null: no files at all, not even error files."}),
    row(kLogs, "redirects", "SPEC", "into files: 0 nothing, 1 stdout, 2 stderr, 3 both; or by rank: 0:3,1-7:2,g8:1",
        custom<streams<&LogOptions::redirects>>(),
        {.default_value = "0",
         .letter = 'r',
         .choices = "0|1|2|3",
         .brief = "1 stdout, 2 stderr, 3 both into files alone",
         .list = true,
         .more = "Plain numbers before the colon are local ranks, g8 is global rank 8; if two match a rank, the last "
                 "one counts."}),
    row(kLogs, "tee", "SPEC", "as --redirects, and on the console, too, each line with a prefix",
        custom<streams<&LogOptions::tee>>(),
        {.default_value = "0",
         .letter = 't',
         .choices = "0|1|2|3",
         .brief = "the same into files and, prefixed, the console",
         .list = true,
         .synonyms = "tag-output"}),
    row(kLogs, "local-ranks-filter", "RANKS", "only these ranks on the console: 0,2-5,g8 or none (left out: all)",
        custom<ranks>(), {.list = true, .synonyms = "ranks,ranks-filter,filter"}),
    row(kLogs, "duplicate-stdout-filters", "LIST",
        "copy tee'd lines that hold one of these texts into filtered_stdout.log",
        read_by<read_filters, &Config::logs, &LogOptions::stdout_filters>(),
        {.list = true, .more = "A comma separates two texts, two commas are a comma in a text."}),
    row(kLogs, "duplicate-stderr-filters", "LIST", "the same for stderr",
        read_by<read_filters, &Config::logs, &LogOptions::stderr_filters>(), {.list = true}),
    row(kLogs, "log-prefix", "TEXT",
        "prefix of each tee'd line, with ${rank}, ${local_rank}, ${host}, ${role}, ${role_name} and ${time}",
        custom<prefix>(),
        {.default_value = "[${role_name}${local_rank}]:",
         .alias = "log-line-prefix-template",
         .also_in = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
         .synonyms = "prefix"}),
    row(kLogs, "log-size", "SIZE", "rotate a log file that grows beyond it: 500K, 100M, 2G; 0 never",
        read_by<read_byte_size, &Config::logs, &LogOptions::size_max>(), {.default_value = "0"}),
    row(kLogs, "log-keep", "N", "how many rotated files to keep of each log",
        at<&Config::logs, &LogOptions::size_keep>(), {.min = 0, .max = kKeepMax}),
    row(kLogs, "log-layout", "WHOSE", "whose folders and names below --log-dir", at<&Config::logs, &LogOptions::tree>(),
        {.choices = "ddprun|torchrun",
         .more = "torchrun's are DIR/<run id>_<random>/attempt_N/<local rank>/stdout.log and stderr.log."}),
    // Reports
    row(kReports, "event-log-handler", "WHERE",
        "where events are written as lines of JSON: null (nowhere), console (stderr), or file:PATH", custom<events>(),
        {.default_value = "null", .choices = "null|console|file:", .synonyms = "events,event-log"}),
    row(kReports, "metrics-address", "PLACE",
        "answer over HTTP there, with metrics for Prometheus: PORT on this machine alone, or ADDRESS:PORT",
        custom<metrics_place>(),
        {.alias = "metrics",
         .synonyms = "metrics-port,prometheus,prometheus-port",
         .more = "/metrics, /status (what ddprun status --json says), /healthz and /readyz. Each node serves its own "
                 "ranks, and what concerns the whole job. Port 0 takes any free one and says which on a terminal."}),
    row(kReports, "metrics-token-file", "FILE", "the secret that they must show who read the metrics",
        at<&Config::metrics_token_file>(),
        {.completes = Completes::file,
         .synonyms = "metrics-token",
         .more = "As Authorization: Bearer TOKEN, for all but /healthz and /readyz. An address that other machines "
                 "reach needs it. It crosses the network as it is, so let it be another one than the job's; "
                 "--make-token prints one."}),
    row(kReports, "page", "", "serve a page of the running job, for browsers, and say where",
        at<&Config::metrics, &MetricsOptions::page>(),
        {.more = "At / of the port of --metrics, or of any free one for this machine alone. It needs nothing from "
                 "outside. With --metrics-token-file it asks for the token."}),
    row(kReports, "allow-chaos", "", "let ddprun chaos kill and slow workers, and cut nodes off",
        at<&Config::rounds, &RoundPolicy::allow_chaos>(),
        {.more = "For a job that is to be tested. Without it such acts are refused."}),
    row(kReports, "metrics-cert", "FILE", "answer over https, with this certificate chain",
        at<&Config::metrics, &MetricsOptions::certificate>(),
        {.completes = Completes::file, .more = "PEM. It is read again when it changes."}),
    row(kReports, "metrics-key", "FILE", "the certificate's key", at<&Config::metrics, &MetricsOptions::key>(),
        {.completes = Completes::file}),
    row(kReports, "otlp", "URL", "push metrics to an OpenTelemetry collector there, or env: as OTEL_... say",
        read_by<read_otlp, &Config::otlp>(),
        {.synonyms = "otlp-endpoint,opentelemetry",
         .more = "By OTLP over HTTP, as JSON, from every node: http://collector:4318. Headers, interval and limits are "
                 "those of OpenTelemetry's environment variables, and with env the URL, too."}),
    row(kReports, "stragglers", "ACTION",
        "about ranks that make the others wait: say, replace their nodes, dry-run (say who would be replaced), or off",
        at<&Config::rounds, &RoundPolicy::stragglers>(),
        {.choices = "say|off|replace|dry-run",
         .synonyms = "straggler,slow-ranks",
         .more = "For workers that report beats. A rank is named if its own computing or loading takes 1.25 times as "
                 "long as the median of all ranks for some time: eight seconds, or twenty steps if it is far slower."}),
    row(kReports, "watch", "MODE",
        "of Python scripts without a line of code: see what they do; act: end hangs, too; or off", custom<watch>(),
        {.default_value = "off",
         .choices = "off|see|act",
         .is_switch = true,
         .more =
             "Alone it is act. A module that Python loads at its start waits until torch is imported; steps are those "
             "of "
             "optimizers, phases those of DistributedDataParallel, DataLoader, torch.save() and collectives. A script "
             "that uses ddprun.channel itself is left alone."}),
    row(kReports, "verbose", "", "show changed values, events and actions on stderr", at<&Config::verbose>(),
        {.letter = 'v',
         .also_in = "LOGLEVEL",
         .brief = "show changed values, events and actions on stderr",
         .synonyms = "debug",
         .more = "LOGLEVEL=INFO or DEBUG in the environment means the same."}),
    row(kItself, "config", "FILE", "read options from a TOML file: max-restarts = 5", {},
        {.completes = Completes::file,
         .brief = "read options from a TOML file",
         .synonyms = "config-file,conf",
         .more = "The environment and the command line override it. See CONFIGURATION FILE."}),
    row(kItself, "dry-run", "", "show what each rank would get, and start nothing", at<&Config::dry_run>(),
        {.more = "Its argv, environment difference, CPU set and log files. No folder is made."}),
    row(kItself, "print-config", "", "show every value and where it came from, as TOML that --config reads",
        at<&Config::print_config>(), {.synonyms = "show-config"}),
    row(kItself, "make-token", "", "print a new token for --token-file"),
    row(kItself, "print-completion", "SHELL", "print the completion of ddprun for bash, zsh or tcsh", {check_choice},
        {.choices = "bash|zsh|tcsh", .synonyms = "completion,shell-completion"}),
    row(kItself, "help", "GROUP", "the options most needed, those of a group, one, or all", {},
        {.letter = 'h',
         .choices = "workers|job|hosts|access|restarts|stopping|preemption|logs|reports|ddprun|torchrun|all",
         .value_optional = true}),
    row(kItself, "version", "", "print ddprun's version", {}, {.letter = 'V'}),
    // Without effect
    row(kWithoutEffect, "monitor-interval", "TIME", "accepted, without effect: ddprun polls no worker",
        custom<monitor_interval>(), {.default_value = "0.1"}),
    row(kWithoutEffect, "start-method", "HOW",
        "accepted, without effect: ddprun execs each worker, as torchrun does with scripts", {check_choice},
        {.choices = "spawn|fork|forkserver"}),
    row(kWithoutEffect, "use-env", "",
        "accepted, without effect: ranks are always in the environment, never an argument --local-rank", {check_flag}),
    row(kWithoutEffect, "logs-specs", "NAME", "a Python plug-in for the layout of logs", {check_choice},
        {.choices = "default",
         .refusal = "names a Python plug-in for logs, but ddprun contains no Python, only 'default': use "
                    "--log-dir, --log-layout, --redirects and --tee instead."}),
    row(kHidden, "generate", "WHAT", "man", {}, {.choices = "man"}),
    row(kHidden, "check-names", "NAMES", "for ddprun.launch() and notebooks"),
};

}  // namespace

const Table& options() {
  static const Config kDefaults;
  static const Table kTable{"ddprun",
                            kOptions,
                            kGroups,
                            &kDefaults,
                            "PET_",
                            "run submit status top ctl describe log cancel list stacks report",
                            /*runs_a_program=*/true};
  return kTable;
}

const Option& option(const char* name) { return settings::option(options(), name); }

std::string subject_of(const std::vector<Setting>& given, const char* name) {
  const Setting* setting = in_force(given, name);
  return setting ? subject(*setting) : std::string("--") + name;
}

}  // namespace ddprun::launcher
