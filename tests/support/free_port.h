// A TCP port for a test that must name one before anything listens on it.
//
// It is outside the kernel's range for sockets that name no port (ip_local_port_range), so no other socket gets it by
// chance, and it is reserved for this process until its end: no other test in this network namespace gets it.
// free_port.py uses the same rule. Throws std::runtime_error if there is none.
#pragma once

#include <cstdint>

namespace ddprun::test {

std::uint16_t free_port();

}  // namespace ddprun::test
