// Tries whether the address at which the other nodes are to meet this one leads here, where it is none of this
// machine's: a public address, a container's mapped port, a service of Kubernetes.
//
// A failed try refuses nothing: a service leads here only once its pod is ready, and some translations work only from
// outside. It reports why, once, and tries until it has reached this agent.
//
// For the thread of the io_context; `report` is not called inside a call of ours, nor after destruction.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/coordination/round/round.h"
#include "rendezvous/peer/dialer.h"

namespace ddprun::agent {

class PlaceCheck {
 public:
  struct Options {
    rendezvous::ControlAddress place;
    std::uint64_t instance = 0;  // that who listens here greets with
    std::shared_ptr<rendezvous::Resolver> names;
  };
  // `trust` must outlive it.
  PlaceCheck(asio::io_context& io, Options options, const rendezvous::PeerTrust& trust,
             std::function<void(const std::string& why)> report);

 private:
  void connected(const rendezvous::NodeIdentity& peer);
  void failed(const std::string& why);

  const Options options_;
  const std::function<void(const std::string& why)> report_;
  std::string why_ = "nobody has answered";
  rendezvous::Dialer dialer_;
  asio::steady_timer report_timer_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // a queued handler checks it: it expires with us
};

}  // namespace ddprun::agent
