// Collects the standings of a round's workers from all its nodes once one of them is overdue.
//
// A value: it asks nobody itself. Standings of different nodes are compared only if each is newer than the question, as
// a rank that waited when one node was asked may have gone on since.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/standing.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

class HangInquiry {
 public:
  struct Next {
    bool ask = false;  // every node of the round for its standings
    std::optional<HangFinding> found = {};
    NodeId node = 0;  // where it was found
  };
  HangInquiry() = default;
  explicit HangInquiry(std::set<NodeId> nodes) : nodes_(std::move(nodes)) {}

  // A node of the round has told its workers' standings, by itself or as it was asked.
  Next on(NodeId node, std::vector<Standing> standings, TimePoint now);

 private:
  struct Told {
    std::vector<Standing> standings;
    TimePoint at;
  };
  bool all_told() const;
  bool told_together() const;
  bool may_ask(TimePoint now) const;

  std::set<NodeId> nodes_;
  std::map<NodeId, Told> told_;
  std::optional<TimePoint> asked_at_, found_at_;
  bool open_ = false;  // asked, and not judged yet
  int found_rank_ = -1;
};

}  // namespace ddprun::rendezvous
