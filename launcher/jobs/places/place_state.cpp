#include "launcher/jobs/places/place_state.h"

namespace ddprun::launcher {

const char* text_of(PlaceState::Phase phase) {
  switch (phase) {
    case PlaceState::Phase::queued:
      return "queued";
    case PlaceState::Phase::running:
      return "running";
    case PlaceState::Phase::succeeded:
      return "succeeded";
    case PlaceState::Phase::failed:
      return "failed";
    case PlaceState::Phase::preempted:
      return "preempted";
    case PlaceState::Phase::stopped:
      return "stopped";
    case PlaceState::Phase::gone:
      break;
  }
  return "gone";
}

bool has_ended(PlaceState::Phase phase) {
  return phase != PlaceState::Phase::queued && phase != PlaceState::Phase::running;
}

}  // namespace ddprun::launcher
