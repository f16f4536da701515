// Messages between an agent and the coordinator over one authenticated connection.
//
// Messages are sent in order. Handlers run in the connection's executor, never inside a function of ours, and never
// after close() or our destruction; a handler may close us, but not destroy us.
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
  // `connection`: authenticated.
  ControlLink(PeerConnection connection, Hooks hooks);
  ~ControlLink();  // closes
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  // Also inside a handler: effective from the next message on.
  void set_hooks(Hooks hooks);
  // Gives the connection away. Only inside on_message, if nothing has been sent and nothing was read after that
  // message.
  PeerConnection release();
  void send(const std::string& message);
  // The peer reads nothing, and so much waits for it that no more is sent: its owner should end the connection.
  bool stuck() const { return unsent_.size() > kUnsentBytesMax; }
  // Closes at once. What the peer has not read yet may be lost.
  void close();

  const NodeIdentity& peer() const { return connection_.peer(); }
  // Numeric addresses; empty if the connection was gone already.
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
