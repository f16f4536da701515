#include "rendezvous/peer/refusal_log.h"

#include <utility>

namespace ddprun::rendezvous {

std::optional<std::string> RefusalLog::refused(const PeerSource& source, const std::string& address,
                                               const std::string& why, TimePoint now) {
  const auto known = logged_.find(source);
  if (known != logged_.end() && now - known->second.last < limits_.refusal_log_interval) {
    ++known->second.suppressed;
    return {};
  }
  if (known == logged_.end() && !make_room(now)) return {};
  Logged& logged = logged_[source];
  logged.last = now;
  const std::size_t suppressed = std::exchange(logged.suppressed, 0);
  std::string line = "refused " + address + ": " + why;
  if (suppressed) line += ", and " + std::to_string(suppressed) + " times more since the last such line";
  return line;
}

bool RefusalLog::make_room(TimePoint now) {
  if (logged_.size() < limits_.refused_sources_max) return true;
  std::erase_if(logged_, [&](const auto& one) { return now - one.second.last >= limits_.refusal_log_interval; });
  return logged_.size() < limits_.refused_sources_max;
}

}  // namespace ddprun::rendezvous
