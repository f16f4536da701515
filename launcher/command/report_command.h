// `ddprun report EVENTS`: where the time of a job went, out of its event log.
#pragma once
#include <string>
#include <vector>

namespace ddprun::launcher {

struct ReportWords {
  std::string file = {}, run_id = {}, page = {};
  bool json = false, help = false;
  std::string mistake = {};  // a sentence
};
// `words`: those after "report". Pure.
ReportWords read_report_words(const std::vector<std::string>& words);

std::string report_help();
// The exit code.
int report_events(const std::vector<std::string>& words);

}  // namespace ddprun::launcher
