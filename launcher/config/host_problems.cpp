#include "launcher/config/host_problems.h"

namespace ddprun::launcher {
namespace {

using settings::Origin, settings::Setting;

std::string subject_in(const Config& config, const char* name) { return subject_of(config.settings, name); }

std::string hosts_subject(const Config& config) {
  return subject_in(config, config.hostfile.empty() ? "hosts" : "hostfile");
}

std::string count_of_hosts(const Config& config) {
  return std::to_string(config.hosts.size()) + (config.hosts.size() == 1 ? " host" : " hosts");
}

void check_node_count(const Config& config, std::vector<std::string>& out) {
  if (const auto hosts = static_cast<int>(config.hosts.size());
      config.rounds.spares > 0 && hosts < config.rounds.spares + 2)
    return out.push_back(subject_in(config, "spares") + " is " + std::to_string(config.rounds.spares) + ", but " +
                         hosts_subject(config) + " names " + count_of_hosts(config) +
                         ", and two nodes have to be left: name more, or pass a smaller --spares.");
  if (!in_force(config.settings, "nnodes")) return;
  const int hosts = static_cast<int>(config.hosts.size()) - config.rounds.spares;
  const NodeCounts& nodes = config.nnodes;
  const std::string who = subject_in(config, "nnodes") + " is " + text_of(nodes) + ", but ";
  if (nodes.least < nodes.most && config.rdzv_backend == Backend::fixed)
    out.push_back(who + "a static job has a fixed number of nodes: pass --rdzv-backend c10d, or one number.");
  else if (hosts < nodes.least)
    out.push_back(who + hosts_subject(config) + " names " + count_of_hosts(config) +
                  ": name more, or pass a smaller --nnodes.");
  else if (nodes.least == nodes.most && hosts > nodes.most)
    out.push_back(who + hosts_subject(config) + " names " + count_of_hosts(config) + ": leave --nnodes out.");
}

}  // namespace

std::vector<std::string> host_problems(const Config& config) {
  std::vector<std::string> out;
  if (config.hosts.empty()) {
    // A file may have one of them for other runs, and the hosts read it, too.
    for (const char* name : {"ssh", "ssh-fan-out", "sync"})
      if (const Setting* given = in_force(config.settings, name);
          given && given->origin == Origin::command_line && config.hostfile.empty())
        out.push_back(subject_in(config, name) +
                      " has no effect without --hosts or --hostfile: leave it out, or name hosts.");
    return out;
  }
  check_node_count(config, out);
  if (in_force(config.settings, "node-rank"))
    out.push_back(subject_in(config, "node-rank") + " is given, but " + hosts_subject(config) +
                  " gives the hosts their ranks, in its order: leave it out.");
  if (config.standalone)
    out.push_back(subject_in(config, "standalone") + " is for this machine alone, and " + hosts_subject(config) +
                  " names others: leave out one of them.");
  if (!config.local_addr.empty())
    out.push_back(subject_in(config, "local-addr") + " is the address of one machine, and " + hosts_subject(config) +
                  " starts the job on " + count_of_hosts(config) + ": pass --interface, or leave it out.");
  return out;
}

}  // namespace ddprun::launcher
