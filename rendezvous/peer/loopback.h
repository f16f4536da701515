// The network interface lo, over which processes of one machine reach each other, by whatever address of that machine.
#pragma once

namespace ddprun {

// Also where that cannot be told. A network namespace begins with it down.
bool loopback_is_up();

// For an Error: why, and what to do.
constexpr const char* kLoopbackIsDown = "the network interface lo is down";
constexpr const char* kBringLoopbackUp = "Processes of one machine reach each other over it: ip link set lo up.";

}  // namespace ddprun
