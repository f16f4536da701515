#include "rendezvous/base/duration_text.h"

#include "rendezvous/base/formatted.h"

namespace ddprun {
namespace {

constexpr double kTenSeconds = 10, kMinute = 60, kHour = 3600, kDay = 86400;

struct TwoParts {  // "2 h 5 min" is 2 and 5
  long whole, rest;
};
TwoParts two_parts(double seconds, double unit, double below) {
  const auto whole = static_cast<long>(seconds / unit);
  return {whole, static_cast<long>((seconds - static_cast<double>(whole) * unit) / below)};
}

}  // namespace

std::string duration_text(double seconds) {
  if (seconds < kTenSeconds) return formatted("%.1f s", seconds);
  if (seconds < kMinute) return formatted("%.0f s", seconds);
  if (seconds < kHour) {
    const auto [minutes, rest] = two_parts(seconds, kMinute, 1);
    return formatted("%ld min %ld s", minutes, rest);
  }
  if (seconds < kDay) {
    const auto [hours, rest] = two_parts(seconds, kHour, kMinute);
    return formatted("%ld h %ld min", hours, rest);
  }
  const auto [days, rest] = two_parts(seconds, kDay, kHour);
  return formatted("%ld d %ld h", days, rest);
}

std::string short_duration_text(double seconds) {
  if (seconds < kTenSeconds) return formatted("%.1fs", seconds);
  if (seconds < kMinute) return formatted("%.0fs", seconds);
  if (seconds < kHour) {
    const auto [minutes, rest] = two_parts(seconds, kMinute, 1);
    return formatted("%ldm%02lds", minutes, rest);
  }
  if (seconds < kDay) {
    const auto [hours, rest] = two_parts(seconds, kHour, kMinute);
    return formatted("%ldh%02ldm", hours, rest);
  }
  const auto [days, rest] = two_parts(seconds, kDay, kHour);
  return formatted("%ldd%02ldh", days, rest);
}

}  // namespace ddprun
