// What this machine has that a job asks for: CPUs, GPUs, network interfaces and their addresses.
#pragma once
#include <string>

#include "launcher/config.h"

namespace ddprun {

// CPUs this process may use, GPUs by /dev/nvidiaN and CUDA_VISIBLE_DEVICES.
Machine this_machine();

// The address by which other machines reach that interface: IPv4 before IPv6, never a link-local one. Empty: it has
// none.
std::string address_of_interface(const std::string& name);

std::string host_name();

// Whose an address or name is.
enum class Whose { ours, anothers, unknown };  // unknown: no such name, for the moment
Whose whose_address(const std::string& host);

}  // namespace ddprun
