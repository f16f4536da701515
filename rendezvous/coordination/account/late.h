// Which workers have been silent for long, among those of a round or of a node. Pure.
#pragma once
#include <functional>
#include <vector>

#include "rendezvous/coordination/account/standing.h"

namespace ddprun::rendezvous {

// Who is overdue, or has been silent for nearly as long as one that is: those that wait for a rank become overdue some
// milliseconds after it.
std::function<bool(const Standing&)> late_beside(const std::vector<Standing>& standings);

}  // namespace ddprun::rendezvous
