// What the two kinds of link have in common: job_link.cpp, whose nodes vote, and etcd_link.cpp.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>

#include "agent/link/coordination.h"
#include "rendezvous/coordination/server/coordinator_liveness.h"
#include "rendezvous/coordination/wire/copies_opening.h"

namespace ddprun::agent {

constexpr std::size_t kFallbackPlacesMax = 8;  // for the coordinator, if it is not at its last address

// What an agent's loop dials itself: a TLS context and a resolver are for one thread.
struct LoopSide {
  std::unique_ptr<rendezvous::StoreDialer> dial_store(const rendezvous::Seat& seat,
                                                      const rendezvous::StoreUpstream& proxy) {
    const auto& [host, port] = seat.store_agent;
    return std::make_unique<rendezvous::StoreDialer>(
        loop,
        rendezvous::StoreDialer::Options{
            .host = host, .port = port, .round = seat.round, .trust = trust, .names = names},
        proxy);
  }

  std::unique_ptr<rendezvous::LinkDialer> dial_copies(const rendezvous::ControlAddress& agent,
                                                      rendezvous::LinkDialer::Hooks hooks) {
    return std::make_unique<rendezvous::LinkDialer>(
        loop,
        rendezvous::LinkDialer::Options{.agent = agent,
                                        .opening = rendezvous::copies_opening(),
                                        .welcome = rendezvous::copies_welcome(),
                                        .no_welcome = "it keeps no snapshots in memory",
                                        .other_answer = "it does not answer as an agent with snapshots in memory",
                                        .trust = trust,
                                        .names = names},
        std::move(hooks));
  }

  asio::io_context& loop;
  rendezvous::PeerTrust trust;
  const std::shared_ptr<rendezvous::Resolver> names = std::make_shared<rendezvous::Resolver>(loop);
};

// The job's end, for all nodes, and when this one may leave.
struct JobEnd {
  bool may_leave() const { return !outcome || all_notified || Clock::now() >= deadline; }
  // `another`: by then another coordinator is there, if there is to be one.
  void set_deadline(Duration another = rendezvous::kLease + rendezvous::kLeaseMargin) {
    deadline = std::min(deadline, Clock::now() + another);
  }

  std::optional<rendezvous::Outcome> outcome;  // empty: it goes on
  bool all_notified = false;                   // all nodes know of it
  TimePoint deadline = TimePoint::max();       // if no coordinator is found after the end
};

inline std::vector<rendezvous::ControlAddress> first_places(const std::vector<rendezvous::RoundNode>& nodes) {
  std::vector<rendezvous::ControlAddress> out;
  for (std::size_t i = 0; i < std::min(nodes.size(), kFallbackPlacesMax); ++i) out.push_back(nodes[i].control);
  return out;
}

}  // namespace ddprun::agent
