#include "agent/status/job_outlook.h"

#include <algorithm>
#include <cmath>

namespace ddprun::agent {
namespace {

constexpr int kPercent = 100;
constexpr double kSecondsMax = 1e10;  // three hundred years
constexpr std::int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour, kDaysMax = 100;

// "5 min", "2 h 5 min", "2 h"
std::string two_units(std::int64_t whole, const char* unit, std::int64_t rest, const char* below) {
  const std::string out = std::to_string(whole) + " " + unit;
  return rest == 0 ? out : out + " " + std::to_string(rest) + " " + below;
}

std::int64_t rounded_up(double seconds, std::int64_t unit) {
  return static_cast<std::int64_t>(std::ceil(seconds / static_cast<double>(unit)));
}

std::string time_in_words(double seconds) {
  if (const std::int64_t whole = rounded_up(seconds, 1); whole < kMinute) return std::to_string(whole) + " s";
  const std::int64_t minutes = rounded_up(seconds, kMinute);
  if (minutes * kMinute < kHour) return std::to_string(minutes) + " min";
  if (minutes * kMinute < kDay) return two_units(minutes / 60, "h", minutes % 60, "min");
  const std::int64_t hours = rounded_up(seconds, kHour);
  return hours < kDaysMax * 24 ? two_units(hours / 24, "d", hours % 24, "h")
                               : two_units(rounded_up(seconds, kDay), "d", 0, "h");
}

// A double would say 28 for 29 of 100.
int whole_percent(std::uint64_t step, std::uint64_t total) {
  if (step == total) return kPercent;
  const long double share = static_cast<long double>(step) * kPercent / static_cast<long double>(total);
  return std::min(static_cast<int>(share), kPercent - 1);
}

// With a tenth, unless nothing is done, or all.
std::string percent_in_words(const JobOutlook& outlook) {
  constexpr int kTenthsInAll = 1000;
  constexpr double kNoise = 1e-9;  // of the share
  if (outlook.percent == kPercent || outlook.done_share == 0) return std::to_string(outlook.percent);
  const int tenths = std::min(static_cast<int>((outlook.done_share + kNoise) * kTenthsInAll), kTenthsInAll - 1);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

}  // namespace

std::optional<JobOutlook> outlook_of(const StepsDone& steps) {
  if (steps.total_steps == 0 || steps.step > steps.total_steps) return {};
  JobOutlook out{.done_share = static_cast<double>(steps.step) / static_cast<double>(steps.total_steps),
                 .percent = whole_percent(steps.step, steps.total_steps)};
  const std::uint64_t left = steps.total_steps - steps.step;
  if (left == 0 || steps.stands_still || !(steps.steps_per_second > 0)) return out;
  const double seconds = static_cast<double>(left) / steps.steps_per_second * std::max(steps.time_per_training, 1.0);
  if (seconds <= kSecondsMax) out.seconds_left = seconds;
  return out;
}

std::string in_words(const JobOutlook& outlook) {
  const std::string out = percent_in_words(outlook) + " %";
  return outlook.seconds_left ? out + ", " + time_in_words(*outlook.seconds_left) + " left" : out;
}

}  // namespace ddprun::agent
