#include "rendezvous/coordination/round/members.h"

#include <algorithm>
#include <utility>

namespace ddprun::rendezvous {

Member* Members::find(NodeId node) {
  const auto found = members_.find(node);
  return found == members_.end() ? nullptr : &found->second;
}

const Member* Members::find(NodeId node) const {
  const auto found = members_.find(node);
  return found == members_.end() ? nullptr : &found->second;
}

const Member* Members::of_rank(int rank) const {
  const auto held = rank_held_.find(rank);
  return held == rank_held_.end() ? nullptr : find(held->second);
}

Member& Members::add(NodeId node, const NodeOffer& offer, std::optional<Outcome> dismissal) {
  if (fixed_ranks_) rank_held_.emplace(offer.requested_rank.value_or(0), node);
  const Member member{.offer = offer, .arrival = ++arrivals_, .dismissal = std::move(dismissal)};
  return members_.emplace(node, member).first->second;
}

Member Members::remove(NodeId node) {
  if (fixed_ranks_) std::erase_if(rank_held_, [&](const auto& held) { return held.second == node; });
  Member member = std::move(members_.extract(node).mapped());
  ready_ -= member.ready;
  return member;
}

void Members::take_offer(Member& member, const NodeOffer& offer) {
  member.offer = offer;
  knows_unfit_ |= !offer.unfit.empty();
  if (!member.workers || *member.workers == offer.workers) return;
  member.offer.workers = *member.workers;
  member.offer.held.clear();  // its memory is laid out anew
}

void Members::set_ready(Member& member, bool ready) { ready_ += ready - std::exchange(member.ready, ready); }

int Members::fit() const {
  if (!knows_unfit_) return ready_;  // the usual case
  return static_cast<int>(
      std::count_if(members_.begin(), members_.end(), [](const auto& entry) { return is_fit(entry.second); }));
}

int Members::staying() const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(), [](const auto& entry) {
    return !entry.second.dismissal && (!entry.second.ready || entry.second.offer.unfit.empty());
  }));
}

std::set<NodeId> Members::which(const std::function<bool(const Member&)>& counts) const {
  std::set<NodeId> out;
  for (const auto& [id, member] : members_)
    if (counts(member)) out.insert(id);
  return out;
}

void Members::lose(NodeId node, LostNode lost) {
  lost_until_ = lost_.empty() ? lost.workers_until : std::min(lost_until_, lost.workers_until);
  lost_[node] = std::move(lost);
}

// Searches only when the workers of one of them are dead: a thousand nodes come back one after the other.
void Members::forget_dead(TimePoint now) {
  if (lost_.empty() || now < lost_until_) return;
  std::erase_if(lost_, [&](const auto& entry) { return entry.second.workers_until <= now; });
  lost_until_ = TimePoint::max();
  for (const auto& [node, lost] : lost_) lost_until_ = std::min(lost_until_, lost.workers_until);
}

void Members::note_gone(NodeId node) {
  lost_.erase(node);
  gone_.insert(node);
}

void Members::has_come(NodeId node) {
  lost_.erase(node);
  gone_.erase(node);
}

}  // namespace ddprun::rendezvous
