// Loopback, over which processes of one machine reach each other: which hosts are on it, and whether it is up.
#pragma once
#include <sys/socket.h>

#include <string>

namespace ddprun::rendezvous {

// Whether everybody finds only the own machine there: 127.0.0.1 and all of its network, ::1, and ::ffff:127.0.0.1.
bool is_loopback(const sockaddr_storage& address);
// "localhost", or such an address; no other name is looked up.
bool is_loopback(const std::string& host);

// Whether the network interface lo is; also where that cannot be told. A network namespace begins with it down.
bool loopback_is_up();

// For an Error: why, and what to do.
constexpr const char* kLoopbackIsDown = "the network interface lo is down";
constexpr const char* kBringLoopbackUp = "Processes of one machine reach each other over it: ip link set lo up.";

}  // namespace ddprun::rendezvous
