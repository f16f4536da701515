#include "agent/push/kubeflow_status.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>

#include <nlohmann/json.hpp>

#include "rendezvous/base/json_text.h"

namespace ddprun::agent {
namespace {

using nlohmann::json;

// The shortest text that gives the same number.
std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

std::string time_text(std::int64_t now) {
  const std::time_t at = now;
  std::tm parts{};
  gmtime_r(&at, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

// 100 only when the job has ended well: a step may follow the last one that was counted.
void add_progress(json& to, const TrainingProgress& progress) {
  if (progress.done) {
    to["progressPercentage"] = 100;
    to["estimatedRemainingSeconds"] = 0;
    return;
  }
  if (!progress.steps_total || *progress.steps_total == 0) return;
  const double share = static_cast<double>(progress.step) / static_cast<double>(*progress.steps_total);
  to["progressPercentage"] = std::clamp(static_cast<int>(std::min(share, 1.0) * 100), 0, 99);
  if (progress.steps_per_second.value_or(0) <= 0 || progress.step > *progress.steps_total) return;
  const double left = static_cast<double>(*progress.steps_total - progress.step) / *progress.steps_per_second;
  to["estimatedRemainingSeconds"] =
      static_cast<std::int32_t>(std::min<double>(std::ceil(left), std::numeric_limits<std::int32_t>::max()));
}

}  // namespace

std::string kubeflow_status(const TrainingProgress& progress, std::int64_t now) {
  json status = {{"lastUpdatedTime", time_text(now)}};
  add_progress(status, progress);
  json metrics = json::array();
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!name.empty() && metrics.size() < kKubeflowMetricsMax) metrics.push_back({{"name", name}, {"value", value}});
  };
  add("step", std::to_string(progress.step));
  if (progress.steps_total) add("total_steps", std::to_string(*progress.steps_total));
  if (progress.steps_per_second) add("steps_per_second", value_text(*progress.steps_per_second));
  if (progress.samples_per_second) add("samples_per_second", value_text(*progress.samples_per_second));
  for (const auto& [name, value] : progress.measured) add(name, value_text(value));
  status["metrics"] = std::move(metrics);
  return json_text(json{{"trainerStatus", std::move(status)}});
}

}  // namespace ddprun::agent
