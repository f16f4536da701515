// A connection to another node's agent: bytes each way, once both sides have proved who they are.
//
// In three kinds, by the credentials: plain, TLS by a token, TLS by certificates (tls_context.h); the kinds do not
// understand each other, and none falls back to another. handshake() comes first. It ends well when the peer has proved
// itself, has greeted us (greeting.h), and is neither ourselves nor of another job. Until then the peer may send
// `bytes_before_proof_max` bytes, and a listening side's TLS begins with the peer's first byte, so that a silent one
// costs a socket, a timer and 4 KiB.
//
// One read and one write may run at the same time. Handlers run in the socket's executor, never inside the call that
// names them, and never after close() or the end of this object; so they may hold a plain pointer to its owner.
//
// Not thread-safe: for the thread of its executor.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <system_error>

#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>

#include "rendezvous/peer/admission.h"
#include "rendezvous/peer/greeting.h"
#include "rendezvous/peer/released_peer.h"
#include "rendezvous/peer/tls_context.h"

namespace ddprun::rendezvous {

// What all connections of an agent share.
struct PeerTrust {
  std::shared_ptr<TlsContext> tls;
  NodeIdentity own = {};
  AdmissionLimits limits = {};
};

class PeerConnection {
 public:
  // Empty: the peer is who it must be. Else why not, "it shows no token", and the connection is closed.
  using ProofHandler = std::function<void(const std::string& refusal)>;
  using Handler = std::function<void(const std::error_code&)>;
  using ReadHandler = std::function<void(const std::error_code&, std::size_t)>;

  // `socket` is connected.
  PeerConnection(asio::ip::tcp::socket socket, PeerRole role, const PeerTrust& trust);
  PeerConnection(PeerConnection&&) noexcept = default;
  PeerConnection& operator=(PeerConnection&& other) noexcept;
  ~PeerConnection();  // closes

  void handshake(TimePoint deadline, ProofHandler done);
  // At least one byte, or an error: asio::error::eof where the peer closed; connection_aborted where a TLS connection
  // ended without a good-bye, by which somebody on the way may have cut it; bad_message where it was tampered with.
  void read_some(asio::mutable_buffer to, ReadHandler done);
  // All of it. The bytes must stay until `done`.
  void write(asio::const_buffer bytes, Handler done);
  // Takes it from its executor, for a loop of another kind; a proved one that nobody reads or writes. `done` comes in
  // the executor, when what we last sent has left. Of no more use here afterwards.
  void release(std::function<void(ReleasedPeer)> done) &&;
  // At once. What the peer has not read yet may be lost.
  void close();

  // After a refused handshake: the peer went before it had sent a byte, as who only looks whether somebody listens.
  bool left_silently() const;
  // After a good handshake.
  const NodeIdentity& peer() const;
  // Numeric, without the port; IPv4 addresses as such also where the socket is one for both families. Empty where the
  // connection is gone.
  std::string remote_address() const;
  std::string local_address() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
