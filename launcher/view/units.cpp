#include "launcher/view/units.h"

#include <nlohmann/json.hpp>

namespace ddprun::launcher {
namespace {

constexpr double kTenSeconds = 10, kMinute = 60, kHour = 3600, kDay = 86400, kMiB = 1 << 20, kGiB = 1 << 30;

struct Parts {  // "2 h 5 min" is 2 and 5
  long whole, rest;
};
Parts parts(double seconds, double unit, double below) {
  const auto whole = static_cast<long>(seconds / unit);
  return {whole, static_cast<long>((seconds - static_cast<double>(whole) * unit) / below)};
}

}  // namespace

std::string short_duration_text(double seconds) {
  if (seconds < kTenSeconds) return formatted("%.1fs", seconds);
  if (seconds < kMinute) return formatted("%.0fs", seconds);
  if (seconds < kHour) {
    const auto [minutes, rest] = parts(seconds, kMinute, 1);
    return formatted("%ldm%02lds", minutes, rest);
  }
  if (seconds < kDay) {
    const auto [hours, rest] = parts(seconds, kHour, kMinute);
    return formatted("%ldh%02ldm", hours, rest);
  }
  const auto [days, rest] = parts(seconds, kDay, kHour);
  return formatted("%ldd%02ldh", days, rest);
}

std::string bytes_text(double bytes) {
  if (bytes <= 0) return "-";
  return bytes < kGiB ? formatted("%.0f MiB", bytes / kMiB) : formatted("%.1f GiB", bytes / kGiB);
}

std::string processors_text(const nlohmann::json& rank) {
  const auto used = rank.find("processors");
  return used != rank.end() && used->is_number() ? formatted("%.0f%%", 100 * used->get<double>()) : "-";
}

}  // namespace ddprun::launcher
