#include "launcher/plan/host_job.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "launcher/config/options.h"
#include "launcher/ssh/handed_environment.h"
#include "launcher/ssh/ssh_command.h"
#include "launcher/ssh/tree.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/peer/frame.h"
#include "rendezvous/peer/loopback.h"

namespace ddprun::launcher {
namespace {

using settings::Origin, settings::Setting;

// What the head decides itself, or what is of no use to the agents.
constexpr const char* kOfTheHead[] = {"hosts",      "hostfile", "ssh",     "ssh-fan-out",  "sync",      "nnodes",
                                      "token-file", "config",   "dry-run", "print-config", "scheduler", "rdzv-id"};

bool of_the_head(const settings::Option& option) {
  return std::ranges::any_of(kOfTheHead, [&](const char* name) { return std::string_view(option.name) == name; });
}

// The head writes the file: hosts need not have its folder.
bool writes_events(const Config& config, const settings::Option& option) {
  return config.events == EventSink::file && &option == &launcher::option("event-log-handler");
}

// As the command line or the environment gave it: in the spelling of the command line.
std::vector<std::string> options_for_agents(const Config& config) {
  std::vector<std::string> out;
  for (const settings::Option& one : options().options) {
    const Setting* given = *one.name ? in_force(config.settings, one.name) : nullptr;
    if (!given || of_the_head(one) || writes_events(config, one)) continue;
    if (given->origin == Origin::command_line || given->origin == Origin::environment)
      out.push_back(std::string("--") + one.name + "=" + given->text);
  }
  return out;
}

std::string bracketed(const std::string& address) {
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

bool of_one_machine(const std::string& address) { return address.empty() || rendezvous::is_loopback(address); }

// By which the others reach the first host. If that is the head's own machine: by which it was seen.
std::string address_of_first(const std::map<int, HostReady>& ready) {
  const std::string& own = ready.begin()->second.address;
  if (!own.empty()) return own;
  for (const auto& [index, one] : ready)
    if (!one.reached_from.empty()) return one.reached_from;
  return "127.0.0.1";
}

bool fixed_address(const Config& config) { return !config.master_addr.empty() || config.rdzv_endpoint; }

std::string nodes_to_start(const Config& config, std::size_t ready) {
  if (config.nnodes.least < config.nnodes.most) return text_of(config.nnodes);
  return std::to_string(ready - static_cast<std::size_t>(config.rounds.spares));
}

std::optional<int> workers_of(const Config& config, const JobHost& host) {
  if (host.workers) return host.workers;
  return config.nproc_per_node.by == WorkerCount::number ? std::optional(config.nproc_per_node.workers) : std::nullopt;
}

std::string ranks_in_words(std::optional<int> first, std::optional<int> workers) {
  if (!workers) return "workers: as many as --nproc-per-node finds there";
  const std::string count = std::to_string(*workers) + (*workers == 1 ? " worker" : " workers");
  if (!first) return count;
  const std::string last = std::to_string(*first + *workers - 1);
  return *workers == 1 ? "rank " + last : "ranks " + std::to_string(*first) + " to " + last;
}

// The host that reaches each one; empty: the head. As node_links.cpp has it.
void find_parents(const std::vector<JobHost>& hosts, const std::string& parent, int fan_out,
                  std::map<int, std::string>& parents) {
  for (const Branch& branch : branches(hosts.size(), static_cast<std::size_t>(fan_out))) {
    const auto first = hosts.begin() + static_cast<std::ptrdiff_t>(branch.first);
    parents[first->index] = parent;
    find_parents({first + 1, first + static_cast<std::ptrdiff_t>(branch.size)}, first->name, fan_out, parents);
  }
}

int nodes_that_train(const Config& config) { return static_cast<int>(config.hosts.size()) - config.rounds.spares; }

std::set<int> ending_signals_of(const Config& config) {
  std::set<int> out(config.signals_to_handle.begin(), config.signals_to_handle.end());
  out.insert(config.preempt_signals.begin(), config.preempt_signals.end());
  return out;
}

// Under the name by which the workers will look for it, links not followed.
std::string folder_to_copy(const Config& config, const HeadFacts& facts) {
  if (config.sync.empty()) return {};
  std::string folder = (std::filesystem::path(facts.folder) / config.sync).lexically_normal();
  if (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  if (folder == "/")
    throw UsageError("cannot copy / to the hosts (--sync)", "it is the whole disk", "Name the folder of your program.");
  return folder;
}

int hosts_needed(const Config& config) {
  const bool range = config.nnodes.least < config.nnodes.most;
  return range ? config.nnodes.least : static_cast<int>(config.hosts.size());
}

}  // namespace

HostJobOrder host_job_order(const Config& config, const HeadFacts& facts) {
  HostJobOrder order;
  for (const HostEntry& host : config.hosts)
    order.hosts.push_back({static_cast<int>(order.hosts.size()), host.name, host.workers});
  order.ddprun = facts.ddprun;
  order.ssh = config.ssh;
  order.fan_out = config.ssh_fan_out;
  order.folder = facts.folder;
  order.environment = handed_environment(facts.environment);
  order.token = config.token ? std::string(config.token->secret()) : facts.token;
  if (const Setting* file = in_force(config.settings, "config")) order.config_name = file->text;
  order.config_text = facts.config_text;
  order.options = options_for_agents(config);
  for (const char* word : {"--hosts=", "--hostfile=", "--token-file=", "--scheduler=none"})
    order.options.emplace_back(word);
  order.options.push_back("--rdzv-id=" + (config.rdzv_id.empty() ? facts.run_id : config.rdzv_id));
  order.program = config.program;
  order.stop_grace_ms = static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(config.stop.stop_grace).count());
  order.shares_output = config.hosts.size() > 1;
  order.sends_events = config.events == EventSink::file;
  return order;
}

std::variant<std::vector<std::string>, std::string> start_options(const Config& config,
                                                                  const std::map<int, HostReady>& ready) {
  std::vector<std::string> out{"--nnodes=" + nodes_to_start(config, ready.size())};
  const bool fixed = config.rdzv_backend == Backend::fixed;
  if (fixed && ready.size() == 1) return out;
  const std::string port = std::to_string(ready.begin()->second.free_port);
  if (fixed && config.master_port == 0 && !config.rdzv_endpoint) out.push_back("--master-port=" + port);
  if (fixed_address(config) || config.rdzv_backend == Backend::etcd) return out;
  const std::string address = address_of_first(ready);
  const bool others = std::ranges::any_of(ready, [](const auto& one) { return !of_one_machine(one.second.address); });
  if (of_one_machine(address) && others)
    return config.hosts[static_cast<std::size_t>(ready.begin()->first)].name + " is reached by " + address +
           ", an address that other machines cannot use: name one that they can by --master-addr.";
  out.push_back(fixed ? "--master-addr=" + address : "--rdzv-endpoint=" + bracketed(address) + ":" + port);
  return out;
}

HostPlan plan_on_hosts(const Config& config, const HeadFacts& facts) {
  HostPlan plan{
      .sync = folder_to_copy(config, facts), .sync_named = config.sync, .record = record_facts(config, facts.run_id)};
  plan.head.order = host_job_order(config, facts);
  if (encode(plan.head.order).size() > rendezvous::kFrameBytesMax)
    throw UsageError("cannot hand the job to its hosts",
                     "its command, configuration and environment take more than 4 MiB",
                     "Pass a file's name instead of its content.");
  plan.head.least = hosts_needed(config);
  plan.head.version = facts.version;
  plan.head.own_name = facts.own_name;
  plan.head.ending_signals = ending_signals_of(config);
  plan.head.event_file = config.event_file;
  plan.head.start_options = [config](const std::map<int, HostReady>& ready) { return start_options(config, ready); };
  return plan;
}

std::string hosts_dry_run(const Config& config, const HostJobOrder& order, const std::string& own_name) {
  std::vector<JobHost> by_ssh;
  for (const JobHost& host : order.hosts)
    if (!is_this_machine(host.name, own_name)) by_ssh.push_back(host);
  std::map<int, std::string> parents;
  find_parents(by_ssh, "", order.fan_out, parents);
  std::string out;
  std::optional<int> rank = 0;
  for (const JobHost& host : order.hosts) {
    const auto workers = workers_of(config, host);
    out += host.name + ": node " + std::to_string(host.index) + ", " +
           (host.index < nodes_that_train(config) ? ranks_in_words(rank, workers) : "a spare") + "\n";
    rank = rank && workers ? std::optional(*rank + *workers) : std::nullopt;
    const auto parent = parents.find(host.index);
    const bool by_head = parent == parents.end() || parent->second.empty();
    out += parent == parents.end() ? "  runs        " + pasted({order.ddprun, kNodeCommand}) + "\n"
                                   : "  runs        " + pasted(ssh_command(order.ssh, host.name, order.ddprun)) + "\n";
    if (!by_head) out += "  from        " + parent->second + "\n";
  }
  out += "\neach then runs there\n  in          " + shell_word(order.folder) + "\n  ddprun      ";
  std::vector<std::string> words = order.options;
  words.insert(words.begin(), "ddprun");
  words.emplace_back("--");
  words.insert(words.end(), order.program.begin(), order.program.end());
  return out + pasted(words) + "\n";
}

}  // namespace ddprun::launcher
