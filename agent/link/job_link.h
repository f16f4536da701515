// An agent's part in a job of several nodes: its control port, its connection to the coordinator, and the elections.
#pragma once
#include <functional>
#include <memory>

#include <asio/io_context.hpp>

#include "agent/link/coordination.h"

namespace ddprun::agent {

// `link`: its thread calls everything but offer_store(), dial_store(), dial_copies() and all_left(), which are for the
// thread of `loop`, as is what the dialers call. `loop_stood`: Heartbeat::loop_stood.
// Throws Error if a port cannot be listened on or the credentials cannot be used.
std::unique_ptr<Coordination> make_job_link(asio::io_context& link, asio::io_context& loop,
                                            const rendezvous::RoundPolicy& policy, const Meeting& meeting,
                                            std::function<Duration()> loop_stood, Coordination::Hooks hooks);

}  // namespace ddprun::agent
