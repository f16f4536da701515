// A job's report for people, and as JSON. Pure.
#pragma once
#include <string>

#include "launcher/report/job_report.h"

namespace ddprun::launcher {

// Tables of the kinds of time and of the rounds; ends with a newline.
std::string to_text(const JobReport& report);
// One object on one line, described in docs/report.md; ends with a newline.
std::string to_json(const JobReport& report);
// What agent/http/page/page.js draws.
std::string to_page_data(const JobReport& report);

}  // namespace ddprun::launcher
