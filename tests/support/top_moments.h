// Moments of a job as an agent answers them (agent/status/status_json.h), for what people are shown. The same each
// time.
#pragma once
#include <nlohmann/json.hpp>

namespace ddprun::test {

// Four ranks on two nodes train: step 358 of 12800.
nlohmann::json running_moment();
// The same; rank 2 is stopped, and the others wait for it.
nlohmann::json still_moment();
// 256 ranks on 32 nodes; three of them are in trouble.
nlohmann::json many_moment();

}  // namespace ddprun::test
