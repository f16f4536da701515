// The answer to `ddprun status`, as JSON: docs/status.md names its fields. Pure.
#pragma once
#include <nlohmann/json.hpp>

#include "agent/status/job_summary.h"

namespace ddprun::agent {

nlohmann::json to_json(const StatusAnswer& answer);
nlohmann::json to_json(const JobCondition& condition);

}  // namespace ddprun::agent
