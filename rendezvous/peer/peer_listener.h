// Listens for other agents: passes on those that have authenticated, and limits what the others take.
//
// Limits on unauthenticated peers, and which of them are evicted: admission.h. Refusals are logged as refusal_log.h
// says. For the thread of its io_context; calls no handler after its destruction.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <asio/steady_timer.hpp>

#include "rendezvous/peer/acceptor.h"
#include "rendezvous/peer/admission.h"
#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/peer_connection.h"
#include "rendezvous/peer/refusal_log.h"
#include "rendezvous/peer/source_filter.h"

namespace ddprun::rendezvous {

class PeerListener {
 public:
  struct Hooks {
    std::function<void(PeerConnection)> on_peer;
    std::function<void(const std::string& line)> on_refusal;  // "refused 10.0.0.7: it presented no token"
  };
  // Takes ownership of `listening`, from open_listener().
  PeerListener(asio::io_context& io, const Listening& listening, PeerTrust trust, Hooks hooks);

  std::uint16_t port() const { return port_; }
  std::size_t unauthenticated() const { return admission_.unauthenticated(); }

 private:
  struct Pending {
    PeerConnection connection;
    PeerSource source;
    std::string address;
  };
  void admit(asio::ip::tcp::socket socket);
  void finish(Admission::PeerId id, const std::string& refusal);
  void schedule_unblock();
  void log_refusal(const PeerSource& source, const std::string& address, const std::string& refusal);

  const PeerTrust trust_;
  const Hooks hooks_;
  const std::uint16_t port_;
  Admission admission_;
  SourceFilter filter_;
  asio::steady_timer unblock_timer_;
  RefusalLog refusals_;
  Admission::PeerId last_id_ = 0;
  std::map<Admission::PeerId, Pending> pending_;
  Acceptor acceptor_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // expired for handlers still queued at destruction
};

}  // namespace ddprun::rendezvous
