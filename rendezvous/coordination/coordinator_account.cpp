// What the coordinator tells its clock, which accounts for the job's time.
#include <algorithm>

#include "rendezvous/coordination/coordinator.h"

namespace ddprun::rendezvous {

RoundEnd round_end(bool planned, const std::optional<Failure>& cause) {
  if (cause && (cause->status.hung || cause->kind == FailureClass::hang)) return RoundEnd::hang;
  return planned ? RoundEnd::well : RoundEnd::failure;
}

RoundEnd round_end(const Outcome& outcome) {
  return round_end(outcome.verdict == Verdict::success || outcome.verdict == Verdict::interrupted, outcome.cause);
}

Coordinator::Orders Coordinator::handle(const NodeSpent& message, TimePoint) {
  const auto found = std::find(last_by_rank_.begin(), last_by_rank_.end(), message.node);
  if (found != last_by_rank_.end())
    clock_.measured(message.round, static_cast<int>(found - last_by_rank_.begin()), message.spent);
  return {};
}

void Coordinator::watch_stop() {
  if (std::holds_alternative<Gathering>(state_) && members_.all_ready() && members_.lost().empty())
    clock_.all_stopped(now_);
}

}  // namespace ddprun::rendezvous
