// What an agent has answered to `ddprun status`, for people. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "launcher/view/key_lines.h"

namespace ddprun::launcher {

// `live`: agent/status/status_json.h's, of this version of ddprun.
void add_live(const nlohmann::json& live, KeyLines& lines);
// A table; empty: no rank runs.
std::string ranks_text(const nlohmann::json& live);

}  // namespace ddprun::launcher
