// `ddprun report EVENTS`: where the time of a job went, out of its event log.
#pragma once
#include <string>
#include <vector>

namespace ddprun::launcher {

std::string report_help();
// The exit code. `words`: those after "report".
int report_events(const std::vector<std::string>& words);

}  // namespace ddprun::launcher
