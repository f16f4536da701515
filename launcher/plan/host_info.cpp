#include "launcher/plan/host_info.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "agent/process/groups/topology.h"
#include "launcher/config/inputs.h"
#include "launcher/config/visible_gpus.h"
#include "launcher/plan/search_context.h"
#include "rendezvous/base/error.h"
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

// An installed ddprun, and one in its build folder, have it beside them.
std::string python_folder() {
  std::string folder = own_binary();
  for (int parents = 0; parents < 2; ++parents) folder.resize(folder.rfind('/') == folder.npos ? 0 : folder.rfind('/'));
  folder += "/share/ddprun/python";
  return access(folder.c_str(), R_OK | X_OK) == 0 ? folder : "";
}

std::vector<std::string> meeting_hosts(const Places& places) {
  std::vector<std::string> out;
  for (const MeetingPlace& where : places.meeting) out.push_back(where.host);
  return out;
}

void look_up(const Config& config, HostInfo& host) {
  host.loopback_is_up = rendezvous::loopback_is_up();
  if (!host.places.several_nodes) return;
  if (!config.etcd) host.whose_meeting_places = whose_addresses(meeting_hosts(host.places), kLookUpLimit);
  host.local_addr_is_elsewhere = !config.local_addr.empty() && !is_here(config.local_addr);
}

}  // namespace

// The host that a job of one node was given for its store, and the option; empty: none.
std::pair<std::string, const char*> named_host(const Config& config, const Places& places) {
  if (places.several_nodes) return {};
  if (!config.master_addr.empty()) return {config.master_addr, "--master-addr"};
  if (config.rdzv_endpoint && !config.standalone && config.rdzv_backend != Backend::etcd)
    return {config.rdzv_endpoint->host, "--rdzv-endpoint"};
  return {config.local_addr, "--local-addr"};
}

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

HostInfo host_info(const Config& config, const Machine& machine, bool to_run) {
  HostInfo host{host_name(),
                {},
                own_environment(),
                python_folder(),
                bindings(config.numa_binding, worker_count(config.nproc_per_node, machine).value()),
                {}};
  host.places = places_of(config);
  if (config.rdzv_id.empty() && !host.places.several_nodes) host.run_id = to_run ? random_run_id() : "(a random one)";
  if (config.virtual_local_rank && !std::getenv("ZE_AFFINITY_MASK"))
    if (std::string all = all_of_intel(agent::gpu_variables()); !all.empty())
      host.environment["ZE_AFFINITY_MASK"] = std::move(all);
  const std::string named = named_host(config, host.places).first;
  host.named_is_elsewhere = !named.empty() && !is_here(named);
  if (to_run) look_up(config, host);
  if (config.interface.empty()) return host;
  host.interface_address = address_of_interface(config.interface);
  if (host.interface_address.empty() && host.places.master_host.empty())
    throw UsageError("cannot use the interface " + config.interface, "it has no address",
                     "Bring it up, or name an address by --master-addr.");
  return host;
}

}  // namespace ddprun::launcher
