// Whose process a connection over loopback comes from, as the kernel tells by NETLINK_SOCK_DIAG.
//
// On a host that several people share, every one of them reaches a port on loopback. Ours is whoever runs as the same
// user as we, and root, whom nothing keeps out. A peer whose socket has no process any more, or of which the kernel
// tells nothing, is nobody's: an orphaned socket would seem to be root's.
//
// For one thread.
#pragma once
#include <sys/types.h>

#include <string>

#include "rendezvous/fd.h"

namespace ddprun {

class SameUser {
 public:
  // Why the peer of this connected TCP socket is not to be served, "its process belongs to user 1001, ours to 1000";
  // empty: it is.
  std::string complaint_about(int socket);

 private:
  struct Owner {
    bool known = false;
    uid_t user = 0;
    std::string why = {};  // not known
  };
  Owner owner_of_peer(int socket);

  Fd diag_;
};

}  // namespace ddprun
