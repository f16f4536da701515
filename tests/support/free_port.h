// A TCP port for a test that must name one before anybody listens on it.
//
// It lies outside the kernel's range for sockets that name no port (ip_local_port_range), so no other socket gets it by
// chance, and it belongs to this process until its end: no other test of this network namespace is given it.
// free_port.py keeps the same rule. Throws std::runtime_error where there is none.
#pragma once

#include <cstdint>

namespace ddprun::test {

std::uint16_t free_port();

}  // namespace ddprun::test
