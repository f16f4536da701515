// The job's coordinator at its port: agents connect, prove who they are, belong to the job, and stay connected. What
// they say goes to the Coordinator, its orders go to them.
//
// A node whose connection closes, or that gives no sign of life for the lease, is lost: its workers are taken for dead
// once nobody listens any more where its agent did, or the lease and a second are over, by which time it has ended them
// itself.
//
// A thread of its own runs it, so that neither handshakes nor a thousand agents hold up the supervisor of this node.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/control_message.h"
#include "rendezvous/coordinator.h"
#include "rendezvous/listen_socket.h"
#include "rendezvous/peer_connection.h"

namespace ddprun {

constexpr std::chrono::seconds kLease{5};

class CoordinatorServer {
 public:
  struct Options {
    Listening listening;  // of open_listener(), ours from now on
    PeerTrust trust;
    Fingerprint fingerprint;
    RoundPolicy policy;
    Duration lease = kLease;
    std::function<void(const std::string& line)> log;  // from our thread
  };
  explicit CoordinatorServer(Options options);
  ~CoordinatorServer();  // at once

  // Waits until the job is over and every agent, told so, has closed its connection; false where that takes longer.
  bool wait_until_left(std::chrono::milliseconds most);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
