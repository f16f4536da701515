#include "rendezvous/coordinator.h"

#include <utility>

#include "rendezvous/overloaded.h"

namespace ddprun {

Coordinator::Coordinator(const RoundPolicy& policy, std::uint64_t jitter_seed)
    : policy_(policy), ledger_(policy.restarts, jitter_seed), state_(Gathering{}) {}

std::vector<Order> Coordinator::on(const Message& message, TimePoint now) {
  if (std::holds_alternative<Over>(state_)) return {};
  return std::visit(overloaded{
                        [&](auto&, const NodeInterrupted& m) {
                          return end_job({Verdict::interrupted, m.signal, "interrupted", std::nullopt});
                        },
                        [&](Gathering& gathering, const NodeReady& m) { return handle(gathering, m, now); },
                        [&](Gathering& gathering, const CoordinatorTick&) { return form_if_complete(gathering, now); },
                        [&](Running& running, const NodeRunning& m) { return handle(running, m, now); },
                        [&](Running& running, const NodeDone& m) { return handle(running, m); },
                        [&](Running& running, const WorkerFailed& m) { return handle(running, m, now); },
                        [](auto&, const auto&) { return std::vector<Order>{}; },  // out of date: its round is over
                    },
                    state_, message);
}

std::optional<TimePoint> Coordinator::next_deadline() const {
  const auto* gathering = std::get_if<Gathering>(&state_);
  if (!gathering || static_cast<int>(gathering->offers.size()) < policy_.nodes) return {};
  return gathering->not_before;
}

std::vector<Order> Coordinator::handle(Gathering& state, const NodeReady& message, TimePoint now) {
  state.offers[message.node] = message.offer;
  return form_if_complete(state, now);
}

std::vector<Order> Coordinator::form_if_complete(Gathering& state, TimePoint now) {
  if (static_cast<int>(state.offers.size()) < policy_.nodes || now < state.not_before) return {};
  Running running{next_round(state.offers), {}, {}, {}};
  const Round round = running.round;
  state_ = std::move(running);
  return {FormRound{round}};
}

Round Coordinator::next_round(const std::map<NodeId, NodeOffer>& offers) {
  Round round{++rounds_, {}, offers.begin()->second.host, offers.begin()->second.port, ledger_.restarts()};
  int first_rank = 0;
  for (const auto& [id, offer] : offers) {
    round.nodes.push_back({id, offer.workers, first_rank, offer.role});
    first_rank += offer.workers;
  }
  return round;
}

std::vector<Order> Coordinator::handle(Running& state, const NodeRunning& message, TimePoint now) {
  if (message.round != state.round.number) return {};
  state.started.insert(message.node);
  if (state.started.size() == state.round.nodes.size() && !state.all_started_at) state.all_started_at = now;
  return {};
}

std::vector<Order> Coordinator::handle(Running& state, const NodeDone& message) {
  if (message.round != state.round.number) return {};
  state.done.insert(message.node);
  if (state.done.size() < state.round.nodes.size()) return {};
  return end_job({Verdict::success, 0, "all workers ended well", std::nullopt});
}

std::vector<Order> Coordinator::handle(Running& state, const WorkerFailed& message, TimePoint now) {
  const Failure failure = message.failure;
  if (failure.round != state.round.number) return {};
  const bool lived = state.all_started_at && now - *state.all_started_at >= policy_.restarts.progress_after;
  const Ruling ruling = ledger_.charge_crash(failure.status, message.progressed.value_or(lived), now);
  if (!ruling.restart_at) return end_job({Verdict::worker_failed, 0, ruling.reason, failure});
  state_ = Gathering{*ruling.restart_at, {}};
  return {EndRound{failure.round, ruling.reason}};
}

std::vector<Order> Coordinator::end_job(Outcome outcome) {
  state_ = Over{};
  return {EndJob{std::move(outcome)}};
}

}  // namespace ddprun
