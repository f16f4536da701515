// Reports by its lifetime that the training thread writes a snapshot, or waits for one that is being written
// (worker_channel.h): the phase is SAVING meanwhile. Only in a phase of training or evaluation.
#pragma once
#include "rendezvous/channel/beat_scope.h"

namespace ddprun {

class SaveScope {
 public:
  SaveScope() : phase_(current_phase()), beat_(ddprun_channel_current_beat()) {
    if (is_active()) ddprun_channel_phase(DDPRUN_PHASE_SAVING);
  }
  ~SaveScope() {
    if (!is_active()) return;
    ddprun_channel_phase(phase_);
    ddprun_channel_beat(beat_);
  }
  SaveScope(const SaveScope&) = delete;
  SaveScope& operator=(const SaveScope&) = delete;

 private:
  static ddprun_phase current_phase() {
    if (!ddprun_channel_page_ || !in_training_thread()) return DDPRUN_PHASE_UNKNOWN;
    return static_cast<ddprun_phase>(__atomic_load_n(&ddprun_channel_page_->phase.first, __ATOMIC_RELAXED));
  }
  bool is_active() const { return phase_ == DDPRUN_PHASE_TRAINING || phase_ == DDPRUN_PHASE_EVALUATING; }

  const ddprun_phase phase_;
  const ddprun_beat beat_;
};

}  // namespace ddprun
