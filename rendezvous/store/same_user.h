// Finds the user whose process on this machine a connection comes from. The kernel reports it by NETLINK_SOCK_DIAG, or
// in /proc/net/tcp where that does not work (gVisor, kernels without tcp_diag).
//
// On a shared host, every user can reach its ports. Processes of our own user are accepted, and root's, as root has
// access anyway. A peer on this machine is refused if its socket has no process any more, as an orphaned socket would
// seem to be root's, or if the kernel does not report its user.
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

  // About the peer of an accepted TCP socket.
  struct Finding {
    bool on_this_machine = true;  // in our network namespace
    // Why to refuse it: "its process belongs to user 1001, ddprun's to 1000". Empty: accept it; also for a peer
    // elsewhere, whose user is unknown.
    std::string complaint = {};
    bool gone = false;  // that is the complaint, not worth a log line
  };
  Finding check_peer(int socket);

 private:
  struct Pair;  // the two ends of a connection
  struct Owner {
    enum class Status { found, no_process, no_socket, unknown } status = Status::unknown;
    uid_t user = 0;
    std::string why = {};  // if unknown
  };
  Owner owner_of(const Pair& ends);
  Owner query_diag(const Pair& ends);
  bool diag_finds_sockets(const Pair& own);

  Fd diag_;
  std::optional<bool> diag_works_;
};

}  // namespace ddprun::rendezvous
