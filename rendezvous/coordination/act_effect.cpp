#include "rendezvous/coordination/act_effect.h"

#include <algorithm>

namespace ddprun::rendezvous {
namespace {

using Then = ActEffect::Then;

const char* const kNoRound = "no round is under way";

std::string plural(int count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

ActEffect refused(std::string why) { return {{false, std::move(why)}}; }

ActEffect ends_round(std::string text, std::string reason) {
  return {{true, std::move(text)}, Then::round_ends, std::move(reason)};
}

// By its name, or by its group rank.
std::optional<NodeId> node_named(const std::string& name, const ActedOn& job) {
  for (std::size_t i = 0; job.round && i < job.round->nodes.size(); ++i)
    if (name == std::to_string(i) && job.members.contains(job.round->nodes[i].id)) return job.round->nodes[i].id;
  for (const auto& [id, member] : job.members.all())
    if (member.offer.name == name || member.offer.host == name) return id;
  return {};
}

ActEffect restart(const Act& act, const ActedOn& job) {
  if (!job.round) return refused(kNoRound);
  return ends_round("the workers save, and round " + std::to_string(job.round->number + 1) + " follows",
                    "restarted by " + act.by);
}

ActEffect drain(const Act& act, const ActedOn& job) {
  const auto node = node_named(act.node, job);
  if (!node) return refused("there is no node " + act.node);
  Member& member = job.members.at(*node);
  const std::string name = name_of(member.offer);
  if (job.excluded.why(member.offer)) return refused(name + " is left out already");
  if (!job.can_go_on_without(*node))
    return refused("too few others are left without " + name + ": the job needs " +
                   plural(job.policy.nodes_min, "node") + ", and a majority of the last round's");
  job.excluded.exclude(member.offer, "drained by " + act.by, job.now, kLimitWindowMax);
  member.knows_exclusion = false;
  if (!job.round || !job.round->find(*node)) return {{true, name + " is in no further round"}, Then::leave_out};
  return ends_round("the workers save, and the job goes on without " + name, name + " is drained by " + act.by);
}

ActEffect admit(const Act& act, const ActedOn& job) {
  const auto node = node_named(act.node, job);
  if (!node) return refused("there is no node " + act.node);
  const NodeOffer& offer = job.members.at(*node).offer;
  if (!job.excluded.why(offer)) return refused(name_of(offer) + " is not left out");
  job.excluded.admit(offer);
  return {{true, name_of(offer) + " may take part again"}, Then::welcome_back};
}

// Those that are left out must not be able to elect a coordinator of their own.
bool can_shrink_to(int nodes, const ActedOn& job) {
  std::set<NodeId> first;
  for (const NodeId id : job.last_by_rank)
    if (static_cast<int>(first.size()) < nodes && job.members.contains(id)) first.insert(id);
  return job.is_quorum(first);
}

ActEffect resize(const Act& act, const ActedOn& job) {
  if (!job.takes_nodes) return refused("a job of one node is joined by no others (--nnodes)");
  if (job.policy.fixed_ranks) return refused("nodes of a static job have fixed ranks (--rdzv-backend=c10d has none)");
  const int here = job.members.size();
  if (here < act.nodes_min)
    return refused("only " + plural(here, "node") + (here == 1 ? " is" : " are") + " here, and " +
                   std::to_string(act.nodes_min) + " would be needed");
  const auto in_last = static_cast<int>(job.last_by_rank.size());
  if (act.nodes_max < in_last && !can_shrink_to(act.nodes_max, job))
    return refused("at most half of the " + plural(in_last, "node") + " can leave at once: resize step by step");
  const NodeRange range{act.nodes_min, act.nodes_max};
  take_range(range, job.policy, job.resized);
  ActEffect out{{true, "rounds have " + std::to_string(range.least) + " to " + plural(range.most, "node")}};
  out.keep = KeepRange{job.record, range};
  if (!job.round) return out.then = Then::advance, out;
  const int size = static_cast<int>(job.round->nodes.size());
  if (size <= range.most && !(size < range.most && job.has_usable)) return out;
  out.result.text += "; the workers save, and the next round begins";
  out.then = Then::round_ends;
  out.reason = "resized to " + std::to_string(range.least) + ":" + std::to_string(range.most) + " by " + act.by;
  return out;
}

// Why a node cannot have so many more, or fewer; empty: it can.
std::string why_not(const NodeOffer& offer, int change) {
  const int most = std::max(offer.workers, offer.workers_most);
  if (offer.workers + change > most)
    return name_of(offer) + " takes " + plural(most, "worker") + " at most, and has " + std::to_string(offer.workers);
  if (offer.workers + change < 1)
    return name_of(offer) + " has " + plural(offer.workers, "worker") + ", and keeps at least one";
  return {};
}

// Nodes learn of it by their next seat, and offer as many from then on.
ActEffect change_workers(const Act& act, const ActedOn& job) {
  std::vector<NodeId> nodes;
  if (const auto node = act.node.empty() ? std::nullopt : node_named(act.node, job))
    nodes.push_back(*node);
  else if (!act.node.empty())
    return refused("there is no node " + act.node);
  else
    for (const auto& [id, member] : job.members.all())
      if (!member.dismissal) nodes.push_back(id);
  if (nodes.empty()) return refused("no node is here");
  const int change = act.kind == ActKind::add_workers ? act.workers : -act.workers;
  for (const NodeId id : nodes)
    if (std::string why = why_not(job.members.at(id).offer, change); !why.empty()) return refused(std::move(why));
  bool in_round = false;
  for (const NodeId id : nodes) {
    Member& member = job.members.at(id);
    member.workers = member.offer.workers += change;
    member.offer.held.clear();
    in_round |= job.round && job.round->find(id);
  }
  const Member& first = job.members.at(nodes.front());
  const std::string text = nodes.size() == 1
                               ? name_of(first.offer) + " has " + plural(*first.workers, "worker")
                               : "each node has " + plural(act.workers, "worker") + (change > 0 ? " more" : " fewer");
  if (!in_round) return {{true, text + " in the next round"}, Then::advance};
  return ends_round(text + "; the workers save, and the next round begins", in_words(act) + " by " + act.by);
}

ActEffect suspend(const Act& act, const ActedOn& job) {
  if (!job.paused) return refused(kNoRound);
  const bool pauses = act.kind == ActKind::pause;
  if (*job.paused == pauses) return refused(pauses ? "it is paused already" : "it is not paused");
  *job.paused = pauses;
  ActEffect out{{true, pauses ? "all workers are stopped until resume" : "all workers go on"}};
  out.order = SuspendWorkers{job.round->number, pauses};
  return out;
}

ActEffect take_snapshot(const ActedOn& job) {
  if (!job.paused) return refused(kNoRound);
  if (*job.paused) return refused("the job is paused");
  ActEffect out{{true, "the workers are asked to save, and go on"}};
  out.order = TakeSnapshot{job.round->number};
  return out;
}

ActEffect inject(const Act& act, const ActedOn& job) {
  if (!job.policy.allow_chaos) return refused("the job was not started with --allow-chaos, so it is not to be tested");
  if (!act.fault || !job.paused) return refused(kNoRound);
  if (*job.paused) return refused("the job is paused");
  const Fault& fault = *act.fault;
  for (const RoundNode& node : job.round->nodes) {
    if (fault.rank < node.first_rank || fault.rank >= node.first_rank + node.workers) continue;
    if (fault.kind == FaultKind::cut && !job.takes_nodes)
      return refused("a job of one node has no connection to be cut");
    ActEffect out{{true, in_words(fault) + ", on " + node.name}};
    out.order = InjectFault{node.id, job.round->number, fault};
    return out;
  }
  return refused("there is no rank " + std::to_string(fault.rank));
}

}  // namespace

ActEffect effect_of(const Act& act, const ActedOn& job) {
  switch (act.kind) {
    case ActKind::restart:
      return restart(act, job);
    case ActKind::stop:
      return {{true, "the workers save, and the job ends"}, Then::job_ends, "stopped by " + act.by};
    case ActKind::drain:
      return drain(act, job);
    case ActKind::admit:
      return admit(act, job);
    case ActKind::resize:
      return resize(act, job);
    case ActKind::add_workers:
    case ActKind::remove_workers:
      return change_workers(act, job);
    case ActKind::pause:
    case ActKind::resume:
      return suspend(act, job);
    case ActKind::snapshot:
      return take_snapshot(job);
    case ActKind::fault:
      return inject(act, job);
  }
  return refused("it is not known");
}

}  // namespace ddprun::rendezvous
