// What people are told while a job waits for nodes.
#pragma once
#include <optional>
#include <string>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/coordinator.h"

namespace ddprun::agent {

// "2 of 3 nodes, 8 of 12 workers, waiting for node 2". How many workers are to come is known only where every node
// that is here brings as many as this one does. Empty attendance: a round runs, without this node.
std::string waiting_words(const std::optional<rendezvous::Attendance>& attendance, int own_workers);

// Others may be late for so long without a word.
constexpr std::chrono::seconds kPatience{2};
// A wait is told of when it has lasted so long as this, and each time three times longer than the time before.
Duration next_reminder(Duration so_far);

}  // namespace ddprun::agent
