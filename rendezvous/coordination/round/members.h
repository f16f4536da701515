// The nodes of a job as its coordinator knows them: the members that it is connected to, and those out of reach whose
// workers may live. A value.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/ledger.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

struct Member {
  NodeOffer offer = {};                   // its last one
  bool ready = false;                     // it has no workers; false: it is in a round, or stops its workers
  int arrival = 0;                        // its number in the order of arrival
  std::optional<Outcome> dismissal = {};  // it leaves: sent to it once it has no workers
  bool knows_exclusion = false;
  std::optional<int> workers = {};  // by a user; what it offers until it has got a seat says otherwise
};
inline bool is_fit(const Member& member) { return member.ready && member.offer.unfit.empty(); }

struct LostNode {
  TimePoint workers_until = {};  // by then they are dead
  std::string name = {};
};

class Members {
 public:
  // `fixed_ranks`: no two members have one rank.
  explicit Members(bool fixed_ranks) : fixed_ranks_(fixed_ranks) {}

  const std::map<NodeId, Member>& all() const { return members_; }
  int size() const { return static_cast<int>(members_.size()); }
  bool contains(NodeId node) const { return members_.contains(node); }
  Member* find(NodeId node);  // null: it is none
  const Member* find(NodeId node) const;
  Member& at(NodeId node) { return members_.at(node); }
  const Member& at(NodeId node) const { return members_.at(node); }
  // With fixed ranks: who has this one; null: nobody.
  const Member* of_rank(int rank) const;

  Member& add(NodeId node, const NodeOffer& offer, std::optional<Outcome> dismissal = {});
  Member remove(NodeId node);
  // A user's number of workers stays.
  void take_offer(Member& member, const NodeOffer& offer);
  void set_ready(Member& member, bool ready);

  int ready() const { return ready_; }
  bool all_ready() const { return ready_ == size(); }
  int fit() const;                                 // ready ones that can be in a round
  int staying() const;                             // that do not leave, and can be in a round as far as they said
  bool has_unfit() const { return knows_unfit_; }  // some node said at some time that it could be in none
  std::set<NodeId> which(const std::function<bool(const Member&)>& counts) const;

  // Out of reach.
  const std::map<NodeId, LostNode>& lost() const { return lost_; }
  TimePoint lost_until() const { return lost_until_; }  // the first time at which workers of one of them are dead
  void lose(NodeId node, LostNode lost);
  bool forget_lost(NodeId node) { return lost_.erase(node) != 0; }
  void forget_dead(TimePoint now);  // whose workers are
  // Its process is gone: as that node it never comes again, and never votes.
  void note_gone(NodeId node);
  void has_come(NodeId node);
  bool is_gone(NodeId node) const { return gone_.contains(node); }

 private:
  bool fixed_ranks_;
  std::map<NodeId, Member> members_;
  int arrivals_ = 0, ready_ = 0;
  bool knows_unfit_ = false;
  std::map<int, NodeId> rank_held_;  // if ranks are fixed
  std::map<NodeId, LostNode> lost_;
  TimePoint lost_until_ = {};
  std::set<NodeId> gone_;
};

}  // namespace ddprun::rendezvous
