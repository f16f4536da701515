#include "tests/simulation/cluster_port.h"

#include <utility>

#include "tests/simulation/cluster_agent.h"

namespace ddprun::test {

void ClusterPort::lead(const std::optional<Succession>& succession, TimePoint requested_at) {
  stop_leading({}, {});
  if (!succession) agent_.note("begins to coordinate");
  leadership = std::make_shared<ClusterCoordinator>(agent_, succession);
  const std::vector<RoundNode> members = succession ? succession->record.nodes : std::vector<RoundNode>{};
  for (const RoundNode& member : members) leadership->liveness.followed(member.id, requested_at);
  leadership->begin(members);
}

void ClusterPort::stop_leading(const Elsewhere& referral, std::optional<NodeId> at) {
  elsewhere_ = referral;
  elsewhere_.record = agent_.election.value().newest();
  elsewhere_at_ = at;
  const auto before = std::exchange(leadership, nullptr);
  if (!before) return;
  agent_.led_at = agent_.now();
  for (const auto& [id, link] : before->peers)
    agent_.net.send(link, id, [&peer = agent_.world.node(id), link = link, told = elsewhere_, at] {
      if (peer.is_present() && peer.link == link) peer.on_elsewhere(told, at, false);
    });
}

void ClusterPort::answer_elsewhere(ClusterAgent& from, Network::LinkId link) {
  Elsewhere referral = elsewhere_;
  referral.record = agent_.election.value().newest();
  agent_.net.send(link, from.id, [this, &from, link, referral, where = elsewhere_at_] {
    const auto before = from.coordinator;
    if (from.is_present() && from.link == link)
      from.on_elsewhere(referral, where,
                        before && *before != agent_.id && agent_.world.who_answers(*before) == agent_.id);
  });
}

void ClusterPort::on_hello(ClusterAgent& from, Network::LinkId link, const RecordId& record) {
  if (!agent_.listens()) return;
  const Bug bug = agent_.world.options.bug;
  if (const auto leading = leadership; leading && from.instead_of != 0) {
    leading->coordinate(JobAbandoned{from.instead_of});
    if (leadership && leadership->peers.contains(from.instead_of))
      leading->lose(from.instead_of, "it left in order to rejoin");
  }
  if (leadership && record > leadership->newest) {
    const bool may_wait = leadership->newest == RecordId{} && bug != Bug::no_waiting;
    if (!may_wait) stop_leading({record.term, {}}, {});
    if (may_wait) leadership->coordinate(JobElsewhere{from.id, record.round});
    if (bug == Bug::no_waiting) agent_.first_place = FirstPlace(1);
    return answer_elsewhere(from, link);
  }
  if (leadership) return take(from, link);
  if (!agent_.end || bug == Bug::silent_end) return answer_elsewhere(from, link);
  agent_.net.send(link, from.id, [&from, link, end = *agent_.end] {
    if (from.is_present() && from.link == link) from.on_message(EndJob{end, true});
  });
}

void ClusterPort::take(ClusterAgent& from, Network::LinkId link) {
  const auto leading = leadership;
  if (leading->peers.contains(from.id)) leading->lose(from.id, "it reconnected");
  leading->add(from.id, link);
  for (const auto& other : agent_.world.nodes)  // it may have taken a dead one's port
    if (other.get() != &from && other->at_place && !other->listens() && agent_.world.who_answers(other->id) == from.id)
      leading->coordinate(NodeGone{other->id});
  if (leadership != leading) return;
  const Welcome welcome{"", kLease, leading->coordinator.term(), leading->quorum_age()};
  agent_.net.send(link, from.id, [this, &from, link, welcome] {
    if (from.is_present() && from.link == link) from.on_welcome(agent_.id, welcome);
  });
}

void ClusterPort::on_message(NodeId id, const FromAgent& message) {
  if (const auto leading = leadership; leading && leading->peers.contains(id)) leading->on_message(id, message);
}

}  // namespace ddprun::test
