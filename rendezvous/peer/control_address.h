// Where an agent listens for other agents.
#pragma once
#include <cstdint>
#include <string>

namespace ddprun::rendezvous {

struct ControlAddress {
  std::string host = {};  // a name or a number
  std::uint16_t port = 0;

  friend bool operator==(const ControlAddress&, const ControlAddress&) = default;
};

}  // namespace ddprun::rendezvous
