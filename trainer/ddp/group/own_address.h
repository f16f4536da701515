// This machine's addresses, without resolving its own name.
#pragma once
#include <cstdint>
#include <string>

namespace ddprun {

// Our numeric address on the route to `host`: gloo would otherwise resolve this machine's name, which takes seconds
// with slow resolvers. Sends no packet. Empty if there is no route, or if looking up `host` takes more than 6 s.
std::string own_address_towards(const std::string& host, std::uint16_t port);

// The same for peers on other machines: never a loopback address, even if our own /etc/hosts maps `host` to one, as
// Debian's does. Then the default route's address, else any of an interface that is up.
std::string own_address_for_other_machines(const std::string& host, std::uint16_t port);

// A text per machine, boot and network namespace: containers do not share a loopback.
std::string machine_identity();

}  // namespace ddprun
