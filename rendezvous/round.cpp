#include "rendezvous/round.h"

#include <map>

namespace ddprun {

std::vector<Seat> seats(const Round& round) {
  std::map<std::string, int> workers_of_role;
  std::vector<Seat> out;
  out.reserve(round.nodes.size());
  for (const RoundNode& node : round.nodes) {
    Seat seat{.round = round.number,
              .group_rank = static_cast<int>(out.size()),
              .group_world_size = static_cast<int>(round.nodes.size()),
              .workers = node.workers,
              .first_rank = node.first_rank,
              .world_size = round.world_size(),
              .role = node.role};
    seat.first_role_rank = workers_of_role[node.role];
    seat.master_host = round.master_host;
    seat.master_port = round.master_port;
    seat.restarts = round.charged.spent();
    workers_of_role[node.role] += node.workers;
    out.push_back(std::move(seat));
  }
  for (Seat& seat : out) seat.role_world_size = workers_of_role[seat.role];
  return out;
}

}  // namespace ddprun
