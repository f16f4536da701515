// How a job is, its last failure, and what is wrong with a rank, from an agent's answer (agent/status/status_json.h):
// the same words in `ddprun top` and `ddprun status`. Older agents do not tell it: then it is made of what they do.
// Pure.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/view/styled_line.h"

namespace ddprun::launcher {

struct ShownCondition {
  std::string text = {};  // "stands still for 3.1 s: ranks 0-2 wait for rank 3 (stopped)"
  Style style = Style::plain;
  bool is_over = false;
};
ShownCondition shown_condition(const nlohmann::json& live);

// "running for 12 min 5 s", "stands still for 3.1 s: ranks 0-2 wait for rank 3 (stopped)"; without a coordinator, why.
std::string condition_text(const nlohmann::json& live);
// The same and its round: "running for 12 min 5 s, round 3"; "stands still for 3.1 s: ranks 0-2 wait for rank 3
// (stopped), round 3"
std::string state_text(const nlohmann::json& live);

// "rank 1 on n0 was killed by SIGKILL, 12 s ago"; empty: the last round did not end by a failure.
std::string last_failure_text(const nlohmann::json& live);

// Of one of live's ranks: "stopped", "slow 2.4x", "holds up"; empty: nothing is wrong.
std::string trouble_text(const nlohmann::json& live, const nlohmann::json& rank);
// The worst is 0; nothing is more than all others.
int trouble_order(const std::string& trouble);
Style style_of_trouble(const std::string& trouble);

}  // namespace ddprun::launcher
