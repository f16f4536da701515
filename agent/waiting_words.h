// What people are told while a job waits for nodes.
#pragma once
#include <optional>
#include <string>

#include "rendezvous/coordinator.h"

namespace ddprun {

// "2 of 3 nodes, 8 of 12 workers, waiting for node 2". How many workers are to come is known only where every node
// that is here brings as many as this one does. Empty attendance: a round runs, without this node.
std::string waiting_words(const std::optional<Attendance>& attendance, int own_workers);

// Whether only this machine finds itself at that place: "localhost", 127.0.0.1, ::1.
bool is_own_loopback(const std::string& host);

}  // namespace ddprun
