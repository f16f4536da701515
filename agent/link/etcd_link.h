// An agent's part in a job whose coordinator is found through etcd: its control port, its connection to the
// coordinator, and the job's keys.
#pragma once
#include <functional>
#include <memory>

#include <asio/io_context.hpp>

#include "agent/link/coordination.h"

namespace ddprun::agent {

// For the threads that make_job_link() names (job_link.h); throws as it does. `meeting.etcd` is set.
std::unique_ptr<Coordination> make_etcd_link(asio::io_context& link, asio::io_context& loop,
                                             const rendezvous::RoundPolicy& policy, const Meeting& meeting,
                                             std::function<Duration()> loop_stood, Coordination::Hooks hooks);

}  // namespace ddprun::agent
