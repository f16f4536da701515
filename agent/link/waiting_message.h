// The messages while a job waits for nodes.
#pragma once
#include <optional>
#include <string>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/coordinator.h"

namespace ddprun::agent {

// "2 of 3 nodes, 8 of 12 workers, waiting for node 2". The expected number of workers is known only if every node
// present brings as many as this one does. Empty attendance: a round runs without this node.
std::string waiting_message(const std::optional<rendezvous::Attendance>& attendance, int own_workers);

// Others may be this late before we print a message.
constexpr std::chrono::seconds kMessageDelay{2};
// The first reminder comes after kMessageDelay, each further one when the wait is three times as long.
Duration next_reminder(Duration so_far);

}  // namespace ddprun::agent
