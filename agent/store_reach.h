// Whether the workers of a job with one node find its store by the name or address that they are told.
//
// What is this machine's is not tried. Anything else is connected to, as another machine may pass on what comes for
// this one; while that fails, it is told why, again and again (next_reminder(), waiting_words.h).
//
// For the thread of the io_context; nothing is told inside a call of ours, nor after our end.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/coordination/round.h"
#include "rendezvous/peer/connector.h"
#include "rendezvous/peer/resolver.h"

namespace ddprun::agent {

class StoreReach {
 public:
  using Tell = std::function<void(const std::string& why)>;
  StoreReach(asio::io_context& io, const std::shared_ptr<rendezvous::Resolver>& names, rendezvous::ControlAddress store,
             Tell tell);

 private:
  void look_up();
  void failed(const std::string& why);
  void tell_in_time();

  std::shared_ptr<rendezvous::Resolver> names_;
  const rendezvous::ControlAddress store_;
  const Tell tell_;
  const TimePoint since_ = Clock::now();
  bool anothers_ = false;
  std::string why_;  // empty: nothing has failed so far
  rendezvous::Connector connector_;
  asio::steady_timer again_, due_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // what is queued when we end finds it gone
};

}  // namespace ddprun::agent
