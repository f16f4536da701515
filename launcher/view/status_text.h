// What an agent has answered to `ddprun status`, for people. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "launcher/view/key_lines.h"
#include "launcher/view/terminal_line.h"

namespace ddprun::launcher {

// `live`: agent/status/status_json.h's, of this version of ddprun. What workers have printed is cut at so many columns.
void add_live(const nlohmann::json& live, KeyLines& lines, std::size_t columns = kAnyWidth);
// A table; empty: no rank runs.
std::string ranks_text(const nlohmann::json& live, std::size_t columns = kAnyWidth);
// "4127 of 9000, 45 %, 15 min left, 5.3 steps/s, loss 0.2130"; empty: no rank reports steps.
std::string step_text(const nlohmann::json& live);
// "42 s ago, rank 0 on n0: epoch 3 step 1200", where no rank reports steps, which tell more; else empty.
std::string last_line_text(const nlohmann::json& live);

}  // namespace ddprun::launcher
