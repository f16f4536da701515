#include "agent/channel/timer_table.h"

#include <cmath>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>

#include "rendezvous/base/json_text.h"

namespace ddprun::agent {
namespace {

using Json = nlohmann::json;

constexpr double kLastSecond = 9e9;  // the year 2255: a later one would not fit into nanoseconds
constexpr std::size_t kShownMax = 80;

template <class T>
std::optional<T> number_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return {};
  const double value = found->template get<double>();
  if (!(std::abs(value) <= static_cast<double>(std::numeric_limits<T>::max()))) return {};
  return static_cast<T>(value);
}

std::optional<WallTime> time_of(double seconds) {
  if (seconds < 0) return {};
  const std::chrono::duration<double> since(std::min(seconds, kLastSecond));
  return WallTime(std::chrono::duration_cast<WallTime::duration>(since));
}

std::string not_a_request(const std::string& line, const std::string& why) {
  const Json shown(line.substr(0, kShownMax));
  return why + ": " + json_text(shown);
}

}  // namespace

TimerLine parse_timer_line(const std::string& line) {
  const Json json = parse_json(line);
  if (!json.is_object()) return not_a_request(line, "not a line of JSON");
  const auto pid = number_at<pid_t>(json, "pid");
  const auto expires = number_at<double>(json, "expiration_time");
  const auto signal = number_at<int>(json, "signal");
  if (!pid || *pid <= 0) return not_a_request(line, "its \"pid\" is not a process id");
  if (!expires) return not_a_request(line, "its \"expiration_time\" is not a number");
  if (!json.contains("scope_id") || !json["scope_id"].is_string())
    return not_a_request(line, "its \"scope_id\" is not a string");
  if (!signal || *signal >= NSIG) return not_a_request(line, "its \"signal\" is not a signal");
  return TimerRequest{*pid, json["scope_id"].get<std::string>(), time_of(*expires), *signal};
}

bool TimerTable::apply(const TimerRequest& request, WallTime now) {
  const std::pair key(request.pid, request.scope);
  if (!request.expires) {
    timers_.erase(key);
    return true;
  }
  if (timers_.size() >= kTimersMax && !timers_.count(key)) return false;
  timers_[key] = {now, *request.expires, request.signal};
  return true;
}

std::optional<WallTime> TimerTable::next_expiry() const {
  std::optional<WallTime> next;
  for (const auto& [key, timer] : timers_)
    if (!next || timer.expires < *next) next = timer.expires;
  return next;
}

std::vector<ExpiredTimer> TimerTable::expire(WallTime now) {
  std::map<pid_t, ExpiredTimer> found;
  for (const auto& [key, timer] : timers_) {
    if (timer.expires > now) continue;
    const ExpiredTimer expired{key.first, key.second, timer.expires, timer.expires - timer.set, timer.signal};
    const auto [first, fresh] = found.emplace(key.first, expired);
    const bool signals = timer.signal > 0, first_signals = first->second.signal > 0;
    if (!fresh && (signals != first_signals ? signals : timer.expires < first->second.expires)) first->second = expired;
  }
  std::vector<ExpiredTimer> out;
  for (auto& [pid, timer] : found) {
    forget(pid);
    out.push_back(std::move(timer));
  }
  return out;
}

void TimerTable::forget(pid_t pid) {
  timers_.erase(timers_.lower_bound({pid, std::string()}), timers_.lower_bound({pid + 1, std::string()}));
}

}  // namespace ddprun::agent
