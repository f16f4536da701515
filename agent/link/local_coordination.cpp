// A job of one node: its coordinator is a value in the agent's own loop.
#include <memory>
#include <utility>
#include <vector>

#include <asio/steady_timer.hpp>

#include "agent/link/coordination.h"
#include "rendezvous/base/overloaded.h"

namespace ddprun::agent {
namespace {

// The message for an order of the coordinator to the only node.
rendezvous::ToAgent as_message(const rendezvous::Order& order) {
  return std::visit(overloaded{
                        [](const rendezvous::FormRound& o) -> rendezvous::ToAgent {
                          return rendezvous::TakeSeat{seats(o.round).front(), o.round.term};
                        },
                        [](const rendezvous::Recall& o) -> rendezvous::ToAgent {
                          return rendezvous::EndRound{o.round, false, ""};
                        },
                        [](const rendezvous::Dismiss& o) -> rendezvous::ToAgent {
                          return rendezvous::EndJob{o.outcome, o.for_all};
                        },
                        [](const rendezvous::Exclude& o) -> rendezvous::ToAgent {
                          return rendezvous::Excluded{o.why, o.lasts};
                        },
                        [](const rendezvous::HandOver&) -> rendezvous::ToAgent { return rendezvous::Elsewhere{}; },
                        [](const auto& o) -> rendezvous::ToAgent { return o; },
                    },
                    order);
}

class LocalCoordination : public Coordination {
 public:
  LocalCoordination(asio::io_context& io, const rendezvous::RoundPolicy& policy, Hooks hooks)
      : coordinator_(policy, Clock::now(), static_cast<std::uint64_t>(Clock::now().time_since_epoch().count())),
        deadline_(io),
        hooks_(std::move(hooks)) {}

  void start() override { hooks_.on_connected(); }

  bool send(const rendezvous::FromAgent& message) override {
    std::visit(overloaded{
                   [](const rendezvous::Hello&) {},
                   [](const rendezvous::Heartbeat&) {},
                   [](const rendezvous::FailureText&) {},
                   [](const rendezvous::VoteRequest&) {},
                   [](const rendezvous::CoordinatorAnnouncement&) {},
                   [](const rendezvous::ClientRequest&) {},
                   [&](const auto& m) { dispatch(m); },
               },
               message);
    return true;
  }

  bool connected() const override { return true; }
  void cut(Duration) override {}
  rendezvous::NodeId node() const override { return 0; }
  void offer_store(int, const rendezvous::StoreGateway&) override {}
  std::unique_ptr<rendezvous::StoreDialer> dial_store(const rendezvous::Seat&,
                                                      const rendezvous::StoreUpstream&) override {
    return {};
  }
  std::unique_ptr<rendezvous::LinkDialer> dial_copies(const rendezvous::ControlAddress&,
                                                      rendezvous::LinkDialer::Hooks) override {
    return {};
  }
  bool may_leave() const override { return true; }
  void leave() override {}
  bool all_left(std::chrono::milliseconds) override { return true; }

 private:
  void dispatch(const rendezvous::Message& message) {
    const std::vector<rendezvous::Order> orders = coordinator_.on(message, Clock::now());
    report_ledger();
    for (const rendezvous::Order& order : orders) hooks_.on_message(as_message(order));
    const auto due = coordinator_.next_deadline();
    if (!due) return void(deadline_.cancel());
    deadline_.expires_at(*due);
    deadline_.async_wait([this](const asio::error_code& error) {
      if (!error) dispatch(rendezvous::CoordinatorTick{});
    });
  }

  void report_ledger() {
    const int changes = coordinator_.changes();
    if (!hooks_.on_ledger || std::exchange(ledger_changes_, changes) == changes) return;
    hooks_.on_ledger(coordinator_.ledger_record(Clock::now()), coordinator_.outcome());
  }

  rendezvous::Coordinator coordinator_;
  asio::steady_timer deadline_;
  Hooks hooks_;
  int ledger_changes_ = 0;
};

}  // namespace

std::unique_ptr<Coordination> make_local_coordination(asio::io_context& io, const rendezvous::RoundPolicy& policy,
                                                      Coordination::Hooks hooks) {
  return std::make_unique<LocalCoordination>(io, policy, std::move(hooks));
}

}  // namespace ddprun::agent
