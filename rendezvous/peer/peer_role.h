// The two parts in a connection between two agents: who listened, and who connected.
#pragma once

namespace ddprun::rendezvous {

enum class PeerRole { server, client };

}  // namespace ddprun::rendezvous
