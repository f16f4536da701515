#include "rendezvous/coordination/round/round.h"

#include <algorithm>
#include <map>

namespace ddprun::rendezvous {

std::string name_of(const std::string& name, const std::string& host) {
  if (host.empty()) return name;
  if (name.empty() || name == host) return host;
  return name + " (" + host + ")";
}

std::string name_of(const NodeOffer& offer) { return name_of(offer.name, offer.host); }

bool Electorate::has_quorum(const std::set<NodeId>& present) const {
  const auto count = static_cast<std::size_t>(
      std::count_if(nodes.begin(), nodes.end(), [&](NodeId node) { return present.contains(node); }));
  return 2 * count > nodes.size() || (2 * count == nodes.size() && present.contains(coordinator));
}

std::vector<Electorate> Round::electorates() const {
  std::vector<Electorate> out{{coordinator, {}}};
  for (const RoundNode& node : nodes) out.front().nodes.push_back(node.id);
  out.insert(out.end(), previous_electorates.begin(), previous_electorates.end());
  return out;
}

int& RestartCounts::of(FailureClass kind) {
  switch (kind) {
    case FailureClass::usage:
      return usage;
    case FailureClass::crash:
      return crashes;
    case FailureClass::out_of_memory:
      return out_of_memory;
    case FailureClass::hang:
      return hangs;
    case FailureClass::start:
      return starts;
    case FailureClass::unkillable:
      return unkillable;
    case FailureClass::lost_node:
      return lost_nodes;
    case FailureClass::preempted:
      return preemptions;
    case FailureClass::clean:
    case FailureClass::error:
      break;
  }
  return errors;
}

std::shared_ptr<const Round> only_id(const RecordId& record) {
  return std::make_shared<const Round>(Round{.number = record.round, .term = record.term});
}

namespace {

std::optional<SeatSnapshot> part_of(const std::optional<CommonSnapshot>& kept, const RoundNode& node) {
  if (!kept) return {};
  SeatSnapshot part{kept->round, kept->step, {}};
  for (int rank = node.first_rank; rank < node.first_rank + node.workers; ++rank) {
    const CommonSnapshot::Holder& holder = kept->holders.at(static_cast<std::size_t>(rank));
    part.from.push_back(holder.node == node.id ? ControlAddress{} : holder.agent);
  }
  return part;
}

}  // namespace

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
    seat.restarts = round.ledger.counts.spent();
    seat.store_agent = round.nodes.front().control;
    seat.learned = round.ledger.learned;
    seat.kept = part_of(round.kept, node);
    if (round.nodes.size() > 1) seat.next_agent = round.nodes[(out.size() + 1) % round.nodes.size()].control;
    workers_of_role[node.role] += node.workers;
    out.push_back(std::move(seat));
  }
  for (Seat& seat : out) seat.role_world_size = workers_of_role[seat.role];
  return out;
}

}  // namespace ddprun::rendezvous
