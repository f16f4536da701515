// Loopback, over which processes of one machine reach each other: which hosts are on it, and whether it is up.
#pragma once
#include <sys/socket.h>

#include <string>

namespace ddprun::rendezvous {

// True for addresses that always mean the own machine: 127.0.0.0/8, also mapped to IPv6, and ::1.
bool is_loopback(const sockaddr_storage& address);
// "localhost", or such an address; other names are not looked up.
bool is_loopback(const std::string& host);

// Whether the network interface lo is up; true if that is unknown. In a new network namespace it is down.
bool loopback_is_up();

// For an Error: why, and what to do.
constexpr const char* kLoopbackIsDown = "the network interface lo is down";
constexpr const char* kBringLoopbackUp = "Processes of one machine reach each other over it: ip link set lo up.";

}  // namespace ddprun::rendezvous
