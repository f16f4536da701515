// How an agent that does not coordinate answers those that look for the coordinator: where it is, as far as known.
//
// A value.
#pragma once
#include <optional>

#include "rendezvous/coordination/wire/control_link.h"
#include "rendezvous/coordination/wire/control_message.h"

namespace ddprun::rendezvous {

class CoordinatorReferral {
 public:
  // `agent`: the one that answers; 0: none.
  explicit CoordinatorReferral(NodeId agent) { elsewhere_.agent = agent; }

  void refer_to(int term, const std::optional<ControlAddress>& coordinator);
  void set_newest(const RecordId& record) { elsewhere_.record = record; }
  void set_end(const Outcome& outcome) { end_ = outcome; }
  int term() const { return elsewhere_.term; }

  Elsewhere referral_for(const ControlLink& asker) const;
  // Answers a hello; the job may be over.
  ToAgent answer(const ControlLink& asker) const;

 private:
  Elsewhere elsewhere_;
  std::optional<Outcome> end_;  // of the job
};

}  // namespace ddprun::rendezvous
