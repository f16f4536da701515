// Reads the answer of `kubectl get` about a job's objects. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "launcher/jobs/places/place_state.h"

namespace ddprun::launcher {

// A List with the Job or JobSet and its pods. No Job in it: gone.
PlaceState state_from_kubernetes(const nlohmann::json& list);

}  // namespace ddprun::launcher
