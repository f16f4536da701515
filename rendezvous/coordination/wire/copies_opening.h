// The first messages on a connection that carries copies of snapshots between two agents: JSON, framed, as agents'
// other first messages. After its opening the caller is silent until the welcome; then the binary protocol begins
// (agent/copies/copy_protocol.h). An agent that keeps no snapshots in memory closes instead.
#pragma once
#include <string>
#include <string_view>

namespace ddprun::rendezvous {

std::string copies_opening();
bool is_copies_opening(std::string_view message);
std::string copies_welcome();

}  // namespace ddprun::rendezvous
