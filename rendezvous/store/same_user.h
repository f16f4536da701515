// Whose process on this machine a connection comes from, as the kernel tells by NETLINK_SOCK_DIAG, or by /proc/net/tcp
// where it does not answer that (gVisor, kernels without tcp_diag).
//
// On a host that several people share, every one of them reaches a port of it. Welcome are processes of our own user,
// and of root, whom nothing keeps out. A peer on this machine whose socket has no process any more, or whose user the
// kernel does not tell, is refused: an orphaned socket would seem to be root's.
//
// For one thread.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

#include "rendezvous/base/fd.h"

namespace ddprun::rendezvous {

class SameUser {
 public:
  SameUser();

  // Of the peer of an accepted TCP socket.
  struct Finding {
    bool on_this_machine = true;  // in our network namespace
    // Why it is not to be served: "its process belongs to user 1001, ours to 1000". Empty: it is. None of a peer
    // elsewhere, whose user nobody can tell us.
    std::string complaint = {};
    bool gone = false;  // that is the complaint, and nobody needs to hear it
  };
  Finding look_at(int socket);

 private:
  struct Pair;  // the two ends of a connection
  struct Owner {
    enum class Known { yes, no_process, no_socket, untold } known = Known::untold;
    uid_t user = 0;
    std::string why = {};  // untold
  };
  Owner owner_of(const Pair& ends);
  Owner ask_diag(const Pair& ends);
  bool diag_knows_sockets(const Pair& own);

  Fd diag_;
  std::optional<bool> diag_works_;
};

}  // namespace ddprun::rendezvous
