#include "rendezvous/peer/refusal_log.h"

#include <utility>

namespace ddprun::rendezvous {

std::optional<std::string> RefusalLog::refused(const PeerSource& source, const std::string& address,
                                               const std::string& why, TimePoint now) {
  const auto known = told_.find(source);
  if (known != told_.end() && now - known->second.last < limits_.refusals_told_every) {
    ++known->second.untold;
    return {};
  }
  if (known == told_.end() && !make_room(now)) return {};
  Told& told = told_[source];
  told.last = now;
  const std::size_t untold = std::exchange(told.untold, 0);
  std::string line = "refused " + address + ": " + why;
  if (untold) line += ", and " + std::to_string(untold) + " times more since the last such line";
  return line;
}

bool RefusalLog::make_room(TimePoint now) {
  if (told_.size() < limits_.refused_sources_max) return true;
  std::erase_if(told_, [&](const auto& one) { return now - one.second.last >= limits_.refusals_told_every; });
  return told_.size() < limits_.refused_sources_max;
}

}  // namespace ddprun::rendezvous
