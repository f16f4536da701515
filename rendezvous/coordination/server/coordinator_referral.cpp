#include "rendezvous/coordination/server/coordinator_referral.h"

#include "rendezvous/peer/loopback.h"

namespace ddprun::rendezvous {

void CoordinatorReferral::refer_to(int term, const std::optional<ControlAddress>& coordinator) {
  elsewhere_.term = term;
  elsewhere_.coordinator = coordinator;
}

Elsewhere CoordinatorReferral::referral_for(const ControlLink& asker) const {
  Elsewhere out = elsewhere_;
  if (out.coordinator && is_loopback(out.coordinator->host) && !is_loopback(asker.remote_address()))
    out.coordinator->host = asker.local_address();  // it is on this host
  return out;
}

ToAgent CoordinatorReferral::answer(const ControlLink& asker) const {
  if (end_) return EndJob{*end_, true};
  return referral_for(asker);
}

}  // namespace ddprun::rendezvous
