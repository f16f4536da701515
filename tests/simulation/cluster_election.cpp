#include "tests/simulation/cluster_election.h"

#include "rendezvous/base/overloaded.h"
#include "tests/simulation/cluster_agent.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr Duration kAnnounceInterval = 1s, kAnnounceFor = 60s;

}  // namespace

ClusterElection::ClusterElection(ClusterAgent& agent)
    : agent_(agent), election_(agent.id, agent.cluster.options.seed) {}

void ClusterElection::on(const ElectionEvent& event, NodeId from) {
  if (!agent_.is_present() || agent_.has_abandoned()) return;
  const Bug bug = agent_.cluster.options.bug;
  if (bug == Bug::no_candidates && std::holds_alternative<ElectionTick>(event)) return;
  if (bug == Bug::vote_twice && std::holds_alternative<VoteRequested>(event)) {
    Election before = election_;
    for (const ElectionAction& action : before.on(event, agent_.now())) execute(action, from);
    return;
  }
  for (const ElectionAction& action : election_.on(event, agent_.now())) execute(action, from);
  schedule();
}

void ClusterElection::execute(const ElectionAction& action, NodeId from) {
  std::visit(overloaded{
                 [&](const AskForVotes& a) {
                   announcing_.reset();
                   agent_.note("stands for term " + std::to_string(a.request.term));
                   const auto request = std::make_shared<const VoteRequest>(a.request);
                   for (const RoundNode& voter : request->record->nodes)
                     if (voter.id != agent_.id) ask_for_vote(voter.id, request);
                 },
                 [&](const GiveVote& a) { give_vote(from, a.vote); },
                 [&](const Lead& a) { on_elected(a); },
                 [&](const Follow&) {
                   announcing_.reset();
                   agent_.port.stop_leading({election_.term(), {}}, from);
                   agent_.connect_to(from);
                 },
                 [&](const GiveUp& a) { give_up(a.certain); },
             },
             action);
}

// It may find no node there, or another one.
void ClusterElection::ask_for_vote(NodeId id, const std::shared_ptr<const VoteRequest>& request) {
  agent_.net.post(agent_.id, id, [this, id, request] {
    ClusterAgent& voter = agent_.cluster.node(id);
    if (voter.is_present()) return voter.election.on(VoteRequested{*request}, agent_.id);
    if (voter.listens() && voter.end)
      return agent_.net.post(id, agent_.id, [this, end = *voter.end] { agent_.on_message(EndJob{end, true}); });
    if (voter.host_down || (voter.listens() && agent_.cluster.who_answers(id) == id)) return;
    agent_.net.post(id, agent_.id, [this, id] { on(NodeDead{id}); });
  });
}

void ClusterElection::give_vote(NodeId candidate, const Vote& vote) {
  ClusterAgent& there = agent_.cluster.node(candidate);
  if (vote.granted) agent_.cluster.checks.on_vote(there.job, vote.term, candidate, agent_.id);
  agent_.net.post(agent_.id, candidate, [this, &there, vote, end = agent_.end] {
    if (end) there.on_message(EndJob{*end, true});
    there.election.on(VoteGiven{agent_.id, vote});
    const auto record = there.election.election_.record();
    if (agent_.cluster.options.bug != Bug::count_twice || !record) return;
    for (const RoundNode& other : record->nodes)
      if (other.id != agent_.id && other.id != there.id) return there.election.on(VoteGiven{other.id, vote});
  });
}

void ClusterElection::give_up(bool certain) {
  if (agent_.end) return agent_.give_up_at_the_end();
  if (agent_.is_stuck()) return;
  if (certain) return agent_.on_loop([this] { agent_.abandon_job(); });
  agent_.dispatch(agent::JobEnded{{Verdict::out_of_reach, 0, "the coordinator is gone or unreachable", {}}});
}

void ClusterElection::schedule() {
  const auto deadline = election_.next_deadline();
  if (!deadline || tick_at_ == deadline) return;
  tick_at_ = deadline;
  agent_.at_time(*deadline, [this, due = *deadline] {
    if (tick_at_ == due) tick_at_.reset();
    if (agent_.is_stuck()) return agent_.after(1s, [this] { schedule(); });
    if (election_.next_deadline() == due) on(ElectionTick{});
  });
}

void ClusterElection::on_elected(const Lead& won) {
  agent_.note("is elected for term " + std::to_string(won.term) + " by " + named(won.record.id()));
  agent_.cluster.checks.on_elected(agent_, won);
  const Duration fence = agent_.cluster.options.bug == Bug::no_fence ? Duration::zero() : kLease + kLeaseMargin;
  agent_.port.lead(Succession{won.term, won.record, won.heard_at + fence, won.record_age, agent_.end},
                   won.requested_at);
  announcing_ = led_ = won;
  agent_.connect_to(agent_.id);
  announce(won.term, agent_.now() + kAnnounceFor);
}

void ClusterElection::announce_again(int term) {
  if (!led_ || led_->term != term || announcing_) return;
  announcing_ = led_;
  announce(term, agent_.now() + kAnnounceFor);
}

// Calls the record's nodes for a while, and the first place as long as it leads.
void ClusterElection::announce(int term, TimePoint until) {
  if (!agent_.is_present() || !announcing_ || announcing_->term != term) return;
  Cluster& cluster = agent_.cluster;
  std::set<NodeId> announced_to;
  for (std::size_t i = 0; i < cluster.count_places(); ++i)
    if (cluster.node(cluster.slots[i]).at_place) announced_to.insert(cluster.slots[i]);
  if (agent_.now() < until)
    for (const RoundNode& other : announcing_->record.nodes) announced_to.insert(other.id);
  announced_to.erase(agent_.id);
  for (const NodeId other : announced_to)
    cluster.net.post(agent_.id, other, [&cluster, other, term, from = agent_.id] {
      cluster.node(other).election.on(CoordinatorAnnounced{term}, from);
    });
  agent_.after(kAnnounceInterval, [this, term, until] { announce(term, until); });
}

}  // namespace ddprun::test
