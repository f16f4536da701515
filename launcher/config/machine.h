// What this machine has: CPUs, GPUs, network interfaces and their addresses.
#pragma once
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "rendezvous/base/time.h"
#include "rendezvous/peer/resolve.h"

namespace ddprun::launcher {

// CPUs this process may use, by affinity and quota; GPUs as in visible_gpus.h.
Machine this_machine();

// The address by which other machines reach that interface: IPv4 before IPv6, never link-local. Empty: it has none.
std::string address_of_interface(const std::string& name);

std::string host_name();

// Whose these addresses and names are; unknown: no such name, or no answer within the limit.
std::vector<rendezvous::Locality> whose_addresses(const std::vector<std::string>& hosts, Duration limit);

}  // namespace ddprun::launcher
