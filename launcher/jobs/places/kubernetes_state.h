// Reads the answers of `kubectl get` about a job's objects, and of `kubectl apply`. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "launcher/jobs/places/place_state.h"
#include "launcher/scheduler/program_run.h"

namespace ddprun::launcher {

// A List with the Job or JobSet and its pods. No Job in it: gone.
PlaceState state_from_kubernetes(const nlohmann::json& list);
// Of a List of several jobs' objects: those with the label of this one.
nlohmann::json objects_of_job(const nlohmann::json& list, const std::string& name);

// Whether a kubectl apply that failed has surely left nothing in the cluster.
bool applied_nothing(const ProgramEnd& end);

}  // namespace ddprun::launcher
