// The lines above the ranks in `ddprun top`: how the job is, how far, how long, what is wrong. Pure.
#pragma once
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "launcher/view/styled_line.h"

namespace ddprun::launcher {

// `live`: an agent's answer, with the fields of any version. `problem`: why there is no newer one; else empty. `tall`:
// there is room for more than one sentence.
std::vector<StyledLine> top_head(const nlohmann::json& live, const std::string& problem, std::size_t columns, bool tall,
                                 bool unicode);

}  // namespace ddprun::launcher
