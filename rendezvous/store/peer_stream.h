// A proved connection to another node's agent, for a loop by epoll: bytes each way, never blocking.
//
// A PeerConnection is made and proved in an agent's own loop; where it then carries a round's store it is taken from
// there (PeerConnection::release), so that keys and values of other nodes' workers are neither read nor encrypted in
// the thread that supervises. What is to be sent waits in output(), whose size its owner keeps within a limit.
//
// Not thread-safe: for one thread at a time.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/base/fd.h"
#include "rendezvous/peer/released_peer.h"
#include "rendezvous/store/output_queue.h"

namespace ddprun::rendezvous {

class PeerStream {
 public:
  explicit PeerStream(ReleasedPeer peer);
  PeerStream(const PeerStream&) = delete;
  PeerStream& operator=(const PeerStream&) = delete;
  ~PeerStream();  // closes; what still waits is lost

  int fd() const { return socket_.get(); }
  const NodeIdentity& peer() const { return identity_; }
  // What the socket has now, piece by piece. False: the connection is over, and why() says how.
  bool read(const std::function<void(std::string_view)>& take);
  OutputQueue& output() { return output_; }
  const OutputQueue& output() const { return output_; }
  // Sends what the socket takes now. False: the connection is over.
  bool flush();
  // Something is left that waits for room in the socket.
  bool writing() const { return writing_; }
  const std::string& why() const { return why_; }

 private:
  bool decrypt(const std::function<void(std::string_view)>& take);
  bool send_plain(std::size_t& sent);
  bool send_encrypted(std::size_t& sent);
  bool encrypt_some();
  bool fail(const std::string& why);
  bool fail(int error);

  const NodeIdentity identity_;
  const Fd socket_;
  const std::shared_ptr<TlsContext> tls_;
  const std::unique_ptr<TlsSession> session_;
  std::string heard_;
  OutputQueue output_;
  OutputQueue encrypted_;  // of output_, on its way
  bool writing_ = false;
  std::string why_;
  std::unique_ptr<char[]> scratch_;
};

}  // namespace ddprun::rendezvous
