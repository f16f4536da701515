#include "tests/simulation/cluster_checks.h"

#include "tests/simulation/cluster_agent.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr Duration kSettled = 15s, kHealthy = 90s;

bool lacks_nodes(Verdict verdict) { return verdict == Verdict::too_few_nodes || verdict == Verdict::too_few_left; }

}  // namespace

ClusterChecks::ClusterChecks(Cluster& cluster)
    : cluster_(cluster), sizes_{{cluster.options.nodes_min, cluster.options.nodes_max}} {}

void ClusterChecks::on_disturbance(int cuts) {
  cuts_ += cuts;
  calm_since_.reset();
  all_alive_since_.reset();
  if (cuts_ > 0) return;
  if (cluster_.all_slots_alive()) all_alive_since_ = cluster_.net.now();
  calm_since_ = cluster_.net.now();
  quorum_at_calm_ = quorum_in_reach();
}

void ClusterChecks::on_cut() {
  cut_at_end_ = cut_at_end_ || ended_at_;
  on_disturbance(1);
}

// Two heartbeats can tell it that a quorum is back before it has to stop. (Only it knows which nodes are gone for good:
// its record has more, so another node may lack a quorum that it had.)
bool ClusterChecks::stays_coordinator(const ClusterAgent& agent) const {
  const ClusterCoordinator& leadership = *agent.port.leadership;
  CoordinatorLiveness liveness = leadership.liveness;  // asking it changes nothing
  return liveness.quorum_age(leadership.coordinator, cluster_.net.now()) < kLease - 2 * kHeartbeatEvery - 500ms;
}

// Whether, among the nodes that stay for a while, one coordinates or can be elected by its record. No node votes for a
// record older than its own.
bool ClusterChecks::quorum_in_reach() {
  std::vector<NodeId> there;
  for (const NodeId id : cluster_.live_nodes())
    if (cluster_.node(id).stays_for(kSettled)) there.push_back(id);
  const auto have_quorum = [&](const std::vector<Electorate>& electorates, const RecordId& record) {
    std::set<NodeId> voters;
    for (const NodeId id : there)
      if (cluster_.node(id).newest <= record) voters.insert(id);
    return std::all_of(electorates.begin(), electorates.end(),
                       [&](const Electorate& one) { return one.has_quorum(voters); });
  };
  std::set<RecordId> tried;
  return std::any_of(there.begin(), there.end(), [&](NodeId id) {
    const ClusterAgent& agent = cluster_.node(id);
    if (agent.port.leads() && stays_coordinator(agent)) {
      const ClusterCoordinator& leadership = *agent.port.leadership;
      if (have_quorum(leadership.coordinator.electorates(), leadership.newest)) return true;
    }
    const auto& record = agent.election.value().record();
    return record && tried.insert(record->id()).second && have_quorum(record->electorates(), record->id());
  });
}

bool ClusterChecks::has_enough_nodes() {
  if (!calm_since_ || !quorum_at_calm_ || cluster_.net.now() < *calm_since_ + kSettled) return false;
  int most = 0;
  for (const auto& [least, unused] : sizes_) most = std::max(most, least);
  const auto all = cluster_.live_nodes();
  return std::count_if(all.begin(), all.end(), [&](NodeId id) { return !cluster_.node(id).left; }) >= most;
}

void ClusterChecks::on_finish(const ClusterAgent& agent, const Outcome& outcome) {
  const TimePoint now = cluster_.net.now();
  const bool out_of_reach = outcome.verdict == Verdict::out_of_reach;
  if ((out_of_reach || lacks_nodes(outcome.verdict)) && !ended_at_ && all_alive_since_ &&
      now >= *all_alive_since_ + kHealthy)
    require(false, "healthy nodes always form a round, node" + std::to_string(agent.id) + " among them");
  if (!calm_since_ || !quorum_at_calm_ || agent.left || (ended_at_ && *ended_at_ < *calm_since_ + kSettled)) return;
  if (out_of_reach && now >= *calm_since_ + agent.patience())
    require(false,
            "an agent in reach of a quorum ends with the job's verdict, node" + std::to_string(agent.id) + " too");
}

void ClusterChecks::on_leave(const ClusterAgent& agent) {
  if (agent.port.leads()) on_disturbance();  // the coordinator is lost with it
  all_alive_since_.reset();
}

void ClusterChecks::on_vote(int job, int term, NodeId candidate, NodeId voter) {
  votes_[{job, term, candidate}].insert(voter);
}

void ClusterChecks::on_elected(const ClusterAgent& agent, const Lead& won) {
  const int job = job_of(won.record.master_host);
  require(terms_.insert({job, won.term}).second, "one coordinator is elected in a term");
  std::set<NodeId>& votes = votes_[{agent.job, won.term, agent.id}];
  votes.insert(agent.id);
  for (const Electorate& electorate : won.record.electorates())
    require(electorate.has_quorum(votes), "who is elected was given the votes of a quorum");
}

void ClusterChecks::on_account(ClusterCoordinator& leadership, TimePoint now) {
  const TimeAccount account = leadership.coordinator.account(now);
  for (const TimeKindName& one : kTimeKinds)
    require(account[one.kind] >= Duration::zero(), "no part of the account is negative");
  const TimePoint begin = now - account.total();
  const auto [began, fresh] = jobs_began_.try_emplace(leadership.job, begin);
  require(begin >= began->second, "the account has no more than the job's time");
  if (!leadership.account_begins) leadership.account_begins = begin;
  require(*leadership.account_begins == begin, "the account adds up to the time that has passed");
}

void ClusterChecks::on_round(const ClusterCoordinator& leadership, const Round& round) {
  require(round.ledger.counts.spent() <= cluster_.options.max_restarts, "never more restarts than allowed");
  check_size(round);
  const JobRound key{leadership.job, round.id()};
  std::set<NodeId> seen;
  int rank = 0;
  for (const RoundNode& member : round.nodes) {
    require(seen.insert(member.id).second && member.first_rank == rank, "every rank is held once");
    rank += member.workers;
    const auto by_user = leadership.workers_by_users.find(member.id);
    require(by_user == leadership.workers_by_users.end() || by_user->second == member.workers,
            "a node has the workers that a user has given it");
  }
  check_snapshots(round);
  rounds_from_snapshots_ += round.kept.has_value();
  formed_[key] = round.nodes;
  charged_ = round.ledger.counts;
  to_confirm_[key].insert(seen.begin(), seen.end());
}

void ClusterChecks::check_size(const Round& round) const {
  const int nodes = static_cast<int>(round.nodes.size());
  std::set<NodeId> all_but_one;  // of users' sizes: more nodes only as far as a quorum needs them
  for (const RoundNode& member : round.nodes)
    if (member.id != round.nodes.back().id) all_but_one.insert(member.id);
  const bool needed = std::any_of(round.previous_electorates.begin(), round.previous_electorates.end(),
                                  [&](const Electorate& one) { return !one.has_quorum(all_but_one); });
  require(std::any_of(sizes_.begin(), sizes_.end(),
                      [&](const auto& size) {
                        return nodes >= size.first && (nodes <= size.second || (sizes_.size() > 1 && needed));
                      }),
          "no round has too few nodes or too many");
}

void ClusterChecks::check_snapshots(const Round& round) const {
  if (!round.kept) return;
  require(static_cast<int>(round.kept->holders.size()) == round.world_size(), "each rank has a snapshot to go on from");
  int rank = 0;
  for (const auto& holder : round.kept->holders) {
    const HeldSnapshot wanted{rank++, round.world_size(), round.kept->round, round.kept->step};
    const auto& held = cluster_.node(holder.node).offer.held;
    require(std::find(held.begin(), held.end(), wanted) != held.end(), "a rank's snapshot is where its seat says");
  }
}

void ClusterChecks::on_start(const JobRound& round) {
  require(to_confirm_[round].empty(), "workers start once every agent has confirmed the round");
}

void ClusterChecks::on_worker(NodeId id, const JobRound& starting) {
  for (const auto& [round, workers] : running_)
    if (round != starting)
      require(false, "no worker of another round runs when one starts: " + named(starting.id) + " on node" +
                         std::to_string(id) + ", " + named(round.id) + " elsewhere");
  if (!started_.insert(starting).second) return;
  require(starting.id.round > last_started_[starting.job], "round numbers grow");
  last_started_[starting.job] = starting.id.round;
}

void ClusterChecks::count_running(const JobRound& round, int change) {
  if ((running_[round] += change) == 0) running_.erase(round);
}

bool ClusterChecks::on_end(const Outcome& outcome) {
  const bool first = !ended_at_;
  if (first) {
    ended_at_ = cluster_.net.now();
    cut_at_end_ = cuts_ > 0;
  }
  if (lacks_nodes(outcome.verdict)) require(!has_enough_nodes(), "nobody times out waiting for nodes that are there");
  if (first) end_ = outcome;
  return first;
}

void ClusterChecks::at_the_end() {
  for (const auto& one : cluster_.nodes) {
    require(one->finished || !one->alive, "every agent finishes");
    require(one->running.empty(), "no worker is left at the end");
  }
  check_same_outcome();
}

// Whatever happens to the coordinator that decided the job's end: if one node that received it lives, all end alike.
void ClusterChecks::check_same_outcome() {
  for (const auto& one : cluster_.nodes)
    if (notified_first_.contains(one->id) && one->alive && !one->left) outcomes_.push_back(*one->finished_with);
  const bool nobody_knows = std::none_of(notified_first_.begin(), notified_first_.end(), [&](NodeId id) {
    return cluster_.node(id).alive && cluster_.node(id).in_last_round;
  });
  if (cut_at_end_ || nobody_knows) return;
  for (const auto& one : cluster_.nodes) {
    if (!one->in_last_round || !one->alive || one->signal != 0) continue;
    if (!one->finished_with || one->finished_with->verdict != end_->verdict)
      require(false, "nodes that heard of the job's end tell the others, node" + std::to_string(one->id));
  }
}

}  // namespace ddprun::test
