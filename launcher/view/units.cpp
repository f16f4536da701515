#include "launcher/view/units.h"

#include <nlohmann/json.hpp>

namespace ddprun::launcher {
namespace {

constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

}  // namespace

std::string bytes_text(double bytes) {
  if (bytes <= 0) return "-";
  return bytes < kGiB ? formatted("%.0f MiB", bytes / kMiB) : formatted("%.1f GiB", bytes / kGiB);
}

std::string processors_text(const nlohmann::json& rank) {
  const auto used = rank.find("processors");
  return used != rank.end() && used->is_number() ? formatted("%.0f%%", 100 * used->get<double>()) : "-";
}

}  // namespace ddprun::launcher
