// This machine's place in the network, without asking a resolver for its name.
#pragma once
#include <cstdint>
#include <string>

namespace ddprun {

// Our address on the way to `host`, as a number: gloo would otherwise resolve this machine's name, which slow resolvers
// make seconds. No packet is sent. Empty where there is no way, or where `host` is a name whose look-up takes more than
// 6 s.
std::string own_address_towards(const std::string& host, std::uint16_t port);

// The same for peers on other machines: not our loopback, although `host` may be a name that our own /etc/hosts gives
// to it, as Debian's does. The default route's address then, else any of an interface that is up.
std::string own_address_for_other_machines(const std::string& host, std::uint16_t port);

// One text per machine and boot, another one for each network namespace: containers do not share a loopback.
std::string machine_identity();

}  // namespace ddprun
