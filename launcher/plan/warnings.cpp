#include "launcher/plan/warnings.h"

#include <filesystem>
#include <utility>

#include "agent/link/waiting_message.h"
#include "rendezvous/peer/loopback.h"

namespace ddprun::launcher {
namespace {

// A sentence where --watch cannot see the program: its Python is told to ignore PYTHONPATH, or to start without site.
// Empty: it can, as far as the command line tells.
std::string watch_problem(const Config& config, const Program& program) {
  if (config.watch == WatchMode::off) return {};
  const auto& argv = program.argv;
  const std::string name = argv.empty() ? "" : std::filesystem::path(argv.front()).filename().string();
  if (!name.starts_with("python")) return {};
  for (auto word = argv.begin() + 1; word != argv.end() && word->size() > 1 && word->front() == '-'; ++word) {
    for (auto letter = word->begin() + 1; letter != word->end(); ++letter) {
      if (*letter == 'm' || *letter == 'c' || *letter == '-') return {};
      if (*letter == 'I' || *letter == 'E' || *letter == 'S')
        return std::string("python -") + *letter + " keeps out what --watch adds: nothing of this script is seen";
      if (*letter != 'W' && *letter != 'X') continue;
      if (letter + 1 == word->end() && word + 1 != argv.end()) ++word;  // its value is the next word
      break;
    }
  }
  return {};
}

// Workers that are sent elsewhere for the store of their own node would wait there for nothing, as nobody else serves
// it. A typical address is that of a manual's machine.
std::string named_host_warning(const Config& config, const HostInfo& host) {
  const auto [named, option] = named_host(config, host.places);
  if (!host.named_is_elsewhere) return {};
  return named + " (" + option + ") is not known as an address of " + host.name +
         ": as the job has one node (--nnodes), its workers meet at 127.0.0.1.";
}

// Whoever can reach this can join the job, a host or "its nodes". Empty: nobody else can, or the nodes authenticate.
// Nodes that find each other at etcd listen at all addresses of theirs, wherever etcd is.
std::string open_to(const Config& config, const Places& places) {
  if (config.token || config.certificates) return {};
  if (config.etcd) return "its nodes";
  const std::string& host = places.meeting.front().host;
  return rendezvous::is_loopback(host) ? "" : host;
}

// By one node: the others' output is often in the same log.
std::string open_warning(const Config& config, const Places& places) {
  const std::string open = open_to(config, places);
  if (config.node_rank > 0 || open.empty()) return {};
  return "no token is set: anyone who can reach " + open +
         " can join this job. Make one with --make-token, and pass it by --token-file.";
}

std::string local_only_warning(const Config& config, const Places& places) {
  if (config.rdzv_backend != Backend::c10d || config.rdzv_endpoint) return {};
  const MeetingPlace& here = places.meeting.front();
  return "no --rdzv-endpoint is given: only agents of this machine can join (at " + here.host + ":" +
         std::to_string(here.port) + "). For others pass --rdzv-endpoint HOST:PORT, an address of one node.";
}

// A warning only: the others may reach this machine by it, such as by the address of a container's host.
std::string local_addr_warning(const Config& config, const HostInfo& host) {
  if (!host.local_addr_is_elsewhere) return {};
  return config.local_addr + " (--local-addr) is not an address of " + host.name +
         ", but the workers of other nodes will look for this node there.";
}

}  // namespace

std::vector<std::string> warnings(const Config& config, const Program& program, const HostInfo& host) {
  std::vector<std::string> out;
  if (!host.loopback_is_up)
    out.push_back(std::string(rendezvous::kLoopbackIsDown) + ". " + rendezvous::kBringLoopbackUp);
  out.push_back(named_host_warning(config, host));
  if (const std::string problem = watch_problem(config, program); !problem.empty()) out.push_back(problem + ".");
  if (host.places.several_nodes)
    for (std::string sentence :
         {open_warning(config, host.places), local_only_warning(config, host.places), local_addr_warning(config, host)})
      out.push_back(std::move(sentence));
  std::erase(out, "");
  return out;
}

}  // namespace ddprun::launcher
