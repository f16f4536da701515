// How much of a job is done, and how long the rest will take. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::agent {

// What is known of a job that counts its steps.
struct StepsDone {
  std::uint64_t step = 0, total_steps = 0;  // 0 of the latter: how many there will be is not known
  double steps_per_second = 0;              // the pace of the last ones; 0: not known
  double time_per_training = 1;             // of the time with saves and evaluations, to that of the steps alone
  bool stands_still = false;                // or no round runs: then it is not known how long it will take
};

struct JobOutlook {
  double done_share = 0;                    // from 0 to 1
  int percent = 0;                          // whole ones: 100 is all
  std::optional<double> seconds_left = {};  // empty: all steps are done, or not known
  friend bool operator==(const JobOutlook&, const JobOutlook&) = default;
};

// Empty: how many steps there will be is not known, or is wrong as more are done.
std::optional<JobOutlook> outlook_of(const StepsDone& steps);

// "45.8 %, 26 min left", "100 %": the time is rounded up, the share down.
std::string in_words(const JobOutlook& outlook);

}  // namespace ddprun::agent
