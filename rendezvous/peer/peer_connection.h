// A connection to another node's agent: bytes in both directions, once both sides have authenticated.
//
// Three kinds, by the credentials: plain, TLS by a token, TLS by certificates (tls_context.h). They are incompatible,
// and none falls back to another. handshake() comes first. It succeeds when the peer has authenticated, has greeted us
// (greeting.h), and is neither ourselves nor of another job. Until then the peer may send `unauthenticated_bytes_max`
// bytes, and a listening side starts TLS with the peer's first byte, so that a silent peer costs a socket, a timer and
// 4 KiB.
//
// One read and one write may run at the same time. Handlers run in the socket's executor, never inside the call that
// takes them, and never after close() or our destruction; so they may hold a plain pointer to its owner.
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
  // Empty: the peer is authenticated. Otherwise the reason, "it presented no token", and the connection is closed.
  using HandshakeHandler = std::function<void(const std::string& refusal)>;
  using Handler = std::function<void(const std::error_code&)>;
  using ReadHandler = std::function<void(const std::error_code&, std::size_t)>;

  // `socket` is connected.
  PeerConnection(asio::ip::tcp::socket socket, PeerRole role, const PeerTrust& trust);
  PeerConnection(PeerConnection&&) noexcept = default;
  PeerConnection& operator=(PeerConnection&& other) noexcept;
  ~PeerConnection();  // closes

  void handshake(TimePoint deadline, HandshakeHandler done);
  // At least one byte, or an error: asio::error::eof if the peer closed; connection_aborted if a TLS connection ended
  // without close_notify, so somebody on the way may have cut it; bad_message if it was tampered with.
  void read_some(asio::mutable_buffer to, ReadHandler done);
  // Writes all of it. The bytes must stay valid until `done`.
  void write(asio::const_buffer bytes, Handler done);
  // Detaches an authenticated connection from its executor, for another kind of loop; no read or write may be pending.
  // Calls `done` in the executor when all output has been sent. The connection is unusable afterwards.
  void release(std::function<void(ReleasedPeer)> done) &&;
  // Closes at once. What the peer has not read yet may be lost.
  void close();

  // After a failed handshake: the peer closed before it sent a byte, as a port check does.
  bool closed_silently() const;
  Duration handshake_cost() const;  // in time of a core
  // After a good handshake.
  const NodeIdentity& peer() const;
  // Numeric, without the port; a mapped IPv4 address as IPv4. Empty if the connection is gone.
  std::string remote_address() const;
  std::string local_address() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun::rendezvous
