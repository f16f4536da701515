// Messages between an agent and the coordinator over one proved connection.
//
// What is sent leaves in order. Handlers run in the connection's executor, never inside a call of ours, and never after
// close() or our end; a handler may close us, but not end us.
//
// Not thread-safe: for the thread of the connection's executor.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/peer/frame.h"
#include "rendezvous/peer/peer_connection.h"

namespace ddprun::rendezvous {

constexpr std::size_t kUnsentBytesMax = 16 << 20;

class ControlLink {
 public:
  struct Hooks {
    std::function<void(std::string message)> on_message;
    std::function<void(const std::string& why)> on_closed;  // once: "the other side closed the connection"
  };
  // `connection`: after a good handshake.
  ControlLink(PeerConnection connection, Hooks hooks);
  ~ControlLink();  // closes
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  // Also inside a handler: for the next message.
  void set_hooks(Hooks hooks);
  // Inside on_message, where nothing has been sent and nothing is read behind that message: the connection is
  // another's.
  PeerConnection release();
  void send(const std::string& message);
  // The peer takes nothing, and so much waits for it that no more is sent: its owner should give it up.
  bool stuck() const { return unsent_.size() > kUnsentBytesMax; }
  // At once. What the peer has not read yet may be lost.
  void close();

  const NodeIdentity& peer() const { return connection_.peer(); }
  // Numeric addresses; empty where the connection was gone already.
  std::string remote_address() const { return connection_.remote_address(); }
  std::string local_address() const { return connection_.local_address(); }

 private:
  void read();
  void write();
  void fail(const std::string& why);

  PeerConnection connection_;
  std::shared_ptr<const Hooks> hooks_;  // stays while it is called
  FrameReader reader_;
  std::unique_ptr<char[]> input_;
  std::string unsent_, sending_;
  bool closed_ = false;
};

}  // namespace ddprun::rendezvous
