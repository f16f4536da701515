// The two roles in a connection between two agents: the server listened, the client connected.
#pragma once

namespace ddprun::rendezvous {

enum class PeerRole { server, client };

}  // namespace ddprun::rendezvous
