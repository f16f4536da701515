#include "launcher/config/config.h"

#include "agent/etcd/etcd_access.h"

#include <algorithm>

#include "launcher/config/etcd_settings.h"
#include "launcher/config/host_problems.h"
#include "launcher/config/options.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/peer/loopback.h"

namespace ddprun::launcher {
namespace {

constexpr int kStaticPort = 29500, kElasticPort = 29400;  // torchrun's
constexpr int kWorkersMax = 4096;  // far above any real node; a typo must not fork until the machine hangs

bool endpoint_counts(const Config& config) {
  return config.rdzv_endpoint && config.rdzv_backend == Backend::fixed && !config.standalone;
}

std::string master_host(const Config& config) {
  if (!config.master_addr.empty()) return config.master_addr;
  return endpoint_counts(config) ? config.rdzv_endpoint->host : config.local_addr;
}

int master_port(const Config& config) {
  if (config.master_port > 0 || !endpoint_counts(config)) return config.master_port;
  return config.rdzv_endpoint->port.value_or(0);
}

MeetingPlace meeting_place(const Config& config) {
  if (config.rdzv_backend == Backend::fixed) {
    const int port = master_port(config);
    const bool by_endpoint = config.master_addr.empty() && config.rdzv_endpoint;
    return {by_endpoint ? config.rdzv_endpoint->host : config.master_addr, port > 0 ? port : kStaticPort};
  }
  // As torchrun: agents of one machine find each other without an endpoint. With a fixed number of nodes (--nnodes=4)
  // its absence is a mistake.
  if (!config.rdzv_endpoint && config.nnodes.least < config.nnodes.most) return {"localhost", kElasticPort};
  if (!config.rdzv_endpoint) return {};
  return {config.rdzv_endpoint->host, config.rdzv_endpoint->port.value_or(kElasticPort)};
}

// Collects sentences; each starts with the value's origin.
class Problems {
 public:
  explicit Problems(const Config& config) : config_(config) {}

  void add(const std::string& sentence) { sentences_.push_back(sentence); }
  // "--nnodes", "PET_NNODES in the environment", "job.toml:3: nnodes"
  std::string subject_of(const char* name) const { return launcher::subject_of(config_.settings, name); }
  std::vector<std::string> take() { return std::move(sentences_); }

 private:
  const Config& config_;
  std::vector<std::string> sentences_;
};

void check_meeting(const Config& config, Problems& out) {
  const NodeCounts& nodes = config.nnodes;
  const bool fixed = config.rdzv_backend == Backend::fixed;
  if (fixed && nodes.least < nodes.most)
    out.add(out.subject_of("nnodes") + " is " + text_of(nodes) +
            ", but a static job has a fixed number of nodes: pass --rdzv-backend c10d, or one number.");
  const int all = nodes.most + config.rounds.spares;
  if (fixed && config.node_rank >= all)
    out.add(out.subject_of("node-rank") + " is " + std::to_string(config.node_rank) + ", but the job's " +
            std::to_string(all) + " nodes " + (config.rounds.spares > 0 ? "and spares " : "") + "have the ranks 0 to " +
            std::to_string(all - 1) + ".");
  if (fixed && !config.further_endpoints.empty())
    out.add(
        out.subject_of("rdzv-endpoint") +
        " names several places, but the nodes of a static job meet at one: pass --rdzv-backend c10d, or one place.");
  if (config.rdzv_backend != Backend::etcd && meeting_place(config).host.empty())
    out.add(out.subject_of("nnodes") + " is " + text_of(nodes) + ", but no meeting place is given: pass " +
            (fixed ? "--master-addr, the address of the node with rank 0."
                   : "--rdzv-endpoint HOST:PORT, an address of one of them."));
}

// Each machine would run a job of its own. A stronger --standalone than the number, which may be a scheduler's or a
// file's, says what is meant.
void check_standalone(const Config& config, Problems& out) {
  if (!config.standalone || config.nnodes.least == 1) return;
  const settings::Setting *alone = in_force(config.settings, "standalone"),
                          *nodes = in_force(config.settings, "nnodes");
  if (alone && nodes && nodes->origin < alone->origin) return;
  out.add(out.subject_of("standalone") + " is for one machine alone, but " + out.subject_of("nnodes") + " is " +
          text_of(config.nnodes) + ": leave out one of them.");
}

void check_nnodes(const Config& config, Problems& out) {
  check_standalone(config, out);
  if (several_nodes(config)) return check_meeting(config, out);
  if (config.rounds.spares > 0)
    return out.add(out.subject_of("spares") + " is " + std::to_string(config.rounds.spares) +
                   ", but a job with spares needs two nodes besides them: ask for more nodes, or leave it out.");
  if (config.node_rank > 0)
    out.add(out.subject_of("node-rank") + " is " + std::to_string(config.node_rank) +
            ", but the only node of this job has rank 0: leave it out.");
}

void check_workers(const Config& config, const Machine& machine, Problems& out) {
  const std::string subject = out.subject_of("nproc-per-node");
  const auto count = worker_count(config.nproc_per_node, machine);
  const settings::Setting* given = in_force(config.settings, "nproc-per-node");
  if (!count)
    return out.add(subject + " is '" + (given ? given->text : "gpu") +
                   "', but this machine shows no GPU of NVIDIA, AMD or Intel; pass a number, or auto.");
  if (*count > kWorkersMax)
    out.add(subject + " is " + std::to_string(*count) + ", more than the " + std::to_string(kWorkersMax) +
            " that one node may have.");
}

void check_interface(const Config& config, const Machine& machine, Problems& out) {
  if (config.interface.empty() || !machine.interfaces) return;
  const std::vector<std::string> here = machine.interfaces();
  if (std::find(here.begin(), here.end(), config.interface) != here.end()) return;
  out.add(out.subject_of("interface") + " is '" + config.interface + "', but this machine has " + listed(here, "and") +
          "." + did_you_mean(config.interface, here));
}

void check_store_ports(const Config& config, Problems& out) {
  if (config.store_ports.first > 0 && !several_nodes(config) && master_port(config) > 0)
    out.add(out.subject_of("store-ports") + " and " + out.subject_of("master-port") +
            " both name the store's port: leave out one of them.");
}

// A static endpoint and --master-addr, --master-port set the same address.
void check_address(const Config& config, Problems& out) {
  if (!endpoint_counts(config)) return;
  const Endpoint& endpoint = *config.rdzv_endpoint;
  if (!config.master_addr.empty() && config.master_addr != endpoint.host)
    out.add(out.subject_of("rdzv-endpoint") + " names " + endpoint.host + " and " + out.subject_of("master-addr") +
            " names " + config.master_addr + ": leave out one of them.");
  if (config.master_port > 0 && endpoint.port && config.master_port != *endpoint.port)
    out.add(out.subject_of("rdzv-endpoint") + " names port " + std::to_string(*endpoint.port) + " and " +
            out.subject_of("master-port") + " names " + std::to_string(config.master_port) +
            ": leave out one of them.");
}

// Certificates need all three files, and exclude a token.
void check_access(const Config& config, Problems& out) {
  if (config.tls_cert.empty() && config.tls_key.empty() && config.tls_ca.empty()) return;
  std::vector<std::string> given, missing;
  const auto sort = [&](const char* name, const std::string& file) {
    file.empty() ? missing.push_back(std::string("--") + name) : given.push_back(out.subject_of(name));
  };
  sort("tls-cert", config.tls_cert);
  sort("tls-key", config.tls_key);
  sort("tls-ca", config.tls_ca);
  if (!missing.empty())
    return out.add(listed(given, "and") + (given.size() == 1 ? " is" : " are") + " given without " +
                   listed(missing, "and") + ": pass all three, or none of them.");
  if (!config.token_file.empty() || !config.token_variable.empty())
    out.add(listed(given, "and") + " exclude a token, which " +
            (config.token_file.empty() ? config.token_variable + " in the environment" : out.subject_of("token-file")) +
            " gives: leave out one of the two.");
}

void check_metrics(const Config& config, Problems& out) {
  if (config.metrics.address.empty() && !config.metrics.page) {
    for (const auto& [name, value] : {std::pair("metrics-token-file", &config.metrics_token_file),
                                      {"metrics-cert", &config.metrics.certificate},
                                      {"metrics-key", &config.metrics.key}})
      if (!value->empty()) out.add(out.subject_of(name) + " is given without --metrics: pass both, or none of them.");
    return;
  }
  if (config.metrics.certificate.empty() != config.metrics.key.empty())
    out.add(out.subject_of(config.metrics.key.empty() ? "metrics-cert" : "metrics-key") + " is given without --" +
            (config.metrics.key.empty() ? "metrics-key" : "metrics-cert") + ": pass both, or none of them.");
  if (config.metrics.address.empty() || rendezvous::is_loopback(config.metrics.address) ||
      !config.metrics_token_file.empty())
    return;
  out.add(out.subject_of("metrics-address") + " is at " + config.metrics.address +
          ", which other machines reach, without a token: pass --metrics-token-file FILE (ddprun --make-token prints "
          "one), or the port alone.");
}

// Without a name of its own no start of the job can find what an earlier one left.
void check_state(const Config& config, Problems& out) {
  if (!config.state_dir.empty() && config.rdzv_id.empty())
    out.add(out.subject_of("state-dir") + " is given without --rdzv-id: give the job a name, the same in every start.");
}

std::string mib(std::uint64_t bytes) { return std::to_string(bytes >> 20) + "M"; }

void check_memory(const Config& config, const Machine& machine, Problems& out) {
  const std::uint64_t asked = config.memory_snapshots;
  if (machine.memory_bytes > 0 && asked > machine.memory_bytes)
    out.add(out.subject_of("memory-snapshots") + " asks for " + mib(asked) + ", and this process may use " +
            mib(machine.memory_bytes) + " of memory: ask for less.");
  else if (asked > 0 && machine.file_bytes_max > 0)
    out.add(out.subject_of("memory-snapshots") + " needs files of any size, and a limit here is " +
            mib(machine.file_bytes_max) + ": lift it (ulimit -f unlimited), or leave the option out.");
}

void check_program(const Config& config, bool has_mistakes, Problems& out) {
  if (config.in_process && config.cgroup)
    out.add(out.subject_of("in-process") + " and " + out.subject_of("cgroup") +
            " exclude each other, as all processes of a control group end together: leave out one of them.");
  if (config.no_python && config.module && !config.run_path)
    out.add(out.subject_of("no-python") + " and " + out.subject_of("module") +
            " exclude each other: leave out one of them.");
  for (const auto& [name, value] :
       {std::pair("prefork-import", &config.prefork_import), {"prefork-learn", &config.prefork_learn}})
    if (!value->empty() && !config.prefork)
      out.add(out.subject_of(name) + " is given without --prefork: pass both, or none of them.");
  const bool wrong_question = in_force(config.settings, "print-completion") != nullptr;
  if (config.program.empty() && !config.print_config && !wrong_question && !has_mistakes)
    out.add("no program is named: ddprun [options] PROGRAM [its arguments].");
  else if (!config.program.empty() && config.program.front().empty())
    out.add("The program's name is empty: ddprun [options] PROGRAM [its arguments].");
}

}  // namespace

std::string text_of(const NodeCounts& nodes) {
  const std::string least = std::to_string(nodes.least);
  return nodes.least == nodes.most ? least : least + ":" + std::to_string(nodes.most);
}

bool has_secrets(const Config& config) {
  const bool of_etcd = config.etcd && (!config.etcd->password.text.empty() || config.etcd->pem.key);
  return config.token || config.certificates || of_etcd || config.metrics.token || !config.metrics.key.empty();
}

bool several_nodes(const Config& config) { return config.nnodes.most > 1 && !config.standalone; }

Places places_of(const Config& config) {
  Places out{several_nodes(config), {}, master_host(config), master_port(config)};
  if (!out.several_nodes) return out;
  out.meeting.push_back(meeting_place(config));
  for (const Endpoint& other : config.further_endpoints)
    out.meeting.push_back({other.host, other.port.value_or(kElasticPort)});
  return out;
}

std::optional<int> worker_count(const WorkerCount& count, const Machine& machine) {
  if (count.by == WorkerCount::number) return count.workers;
  if (count.by == WorkerCount::cpus) return machine.cpus;
  if (const int gpus = machine.gpus(); gpus > 0) return gpus;
  return count.by == WorkerCount::automatic ? std::optional(machine.cpus) : std::nullopt;
}

std::vector<std::string> problems(const Config& config, const Machine& machine, const std::vector<std::string>& some) {
  Problems out(config);
  for (const std::string& sentence : host_problems(config)) out.add(sentence);
  for (const std::string& sentence : etcd_problems(config)) out.add(sentence);
  if (config.hosts.empty()) {  // else each host checks it
    check_nnodes(config, out);
    check_workers(config, machine, out);
    check_interface(config, machine, out);
    check_store_ports(config, out);
    check_memory(config, machine, out);
  }
  check_address(config, out);
  check_access(config, out);
  check_metrics(config, out);
  check_state(config, out);
  check_program(config, !some.empty(), out);
  return out.take();
}

}  // namespace ddprun::launcher
