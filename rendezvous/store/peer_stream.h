// An authenticated connection to another node's agent, for a loop by epoll: non-blocking bytes in both directions.
//
// A PeerConnection is made and authenticated in an agent's own loop. If it then carries a round's store, it is taken
// from there (PeerConnection::release), so that the supervising thread neither reads nor encrypts keys and values of
// other nodes' workers. Bytes to send wait in output(), whose size its owner limits.
//
// Not thread-safe: for one thread at a time.
#pragma once
#include <array>
#include <cstdint>
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
  ~PeerStream();  // closes; unsent output is lost

  int fd() const { return socket_.get(); }
  const NodeIdentity& peer() const { return identity_; }
  // Reads what the socket has now, piece by piece. False: the connection is over, and why() says why.
  bool read(const std::function<void(std::string_view)>& take);
  OutputQueue& output() { return output_; }
  const OutputQueue& output() const { return output_; }
  // Sends what the socket takes now. False: the connection is over.
  bool flush();
  // Some output waits for room in the socket.
  bool writing() const { return writing_; }
  std::uint64_t sent() const { return sent_; }  // bytes that the socket has taken
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
  std::string received_;
  OutputQueue output_;
  OutputQueue encrypted_;  // output that is encrypted and not yet sent
  bool writing_ = false;
  std::uint64_t sent_ = 0;
  std::string why_;
  std::unique_ptr<char[]> scratch_;
};

}  // namespace ddprun::rendezvous
