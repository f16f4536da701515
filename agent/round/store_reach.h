// Checks whether the workers of a job with one node can reach its store by the name or address that they are told.
//
// An address of this machine is not tried. We connect to any other one, as another machine may forward to this one;
// while that fails, the reason is reported repeatedly (next_reminder(), waiting_message.h).
//
// For the thread of the io_context; `report` is not called inside a call of ours, nor after destruction.
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
  using Report = std::function<void(const std::string& why)>;
  StoreReach(asio::io_context& io, const std::shared_ptr<rendezvous::Resolver>& names, rendezvous::ControlAddress store,
             Report report);

 private:
  void look_up();
  void failed(const std::string& why);
  void schedule_report();

  std::shared_ptr<rendezvous::Resolver> names_;
  const rendezvous::ControlAddress store_;
  const Report report_;
  const TimePoint since_ = Clock::now();
  bool is_remote_ = false;
  std::string why_;  // empty: no failure so far
  rendezvous::Connector connector_;
  asio::steady_timer retry_timer_, report_timer_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // queued handlers check it: it expires with us
};

}  // namespace ddprun::agent
