#include "rendezvous/coordination/inquiry/hang_inquiry.h"

#include <algorithm>
#include <utility>

namespace ddprun::rendezvous {
namespace {

constexpr std::chrono::milliseconds kAskEvery{500};
constexpr std::chrono::seconds kAnswerLimit{8};      // for all nodes: they may take stacks first
constexpr std::chrono::seconds kTogether{1};         // answers that are further apart are not compared
constexpr std::chrono::seconds kFindAgainAfter{10};  // the same rank; its agent takes stacks meanwhile

}  // namespace

bool HangInquiry::all_told() const {
  return asked_at_ && std::all_of(nodes_.begin(), nodes_.end(), [&](NodeId node) {
           const auto told = told_.find(node);
           return told != told_.end() && told->second.at >= *asked_at_;
         });
}

bool HangInquiry::told_together() const {
  const auto [first, last] = std::minmax_element(
      told_.begin(), told_.end(), [](const auto& a, const auto& b) { return a.second.at < b.second.at; });
  return last->second.at - first->second.at <= kTogether;
}

bool HangInquiry::may_ask(TimePoint now) const {
  if (!asked_at_) return true;
  return now - *asked_at_ >= (open_ ? Duration(kAnswerLimit) : Duration(kAskEvery));
}

HangInquiry::Next HangInquiry::on(NodeId node, std::vector<Standing> standings, TimePoint now) {
  if (!nodes_.contains(node)) return {};
  Next next;
  const bool overdue = std::any_of(standings.begin(), standings.end(), [](const auto& one) { return one.overdue; });
  told_[node] = {std::move(standings), now};
  if (overdue && may_ask(now)) {
    asked_at_ = now;
    open_ = true;
    next.ask = nodes_.size() > 1;
  }
  if (!open_ || !all_told()) return next;
  if (!told_together()) {  // some took stacks first; now they know them
    asked_at_ = now;
    next.ask = true;
    return next;
  }
  open_ = false;
  std::vector<Standing> all;
  for (const auto& [from, told] : told_) all.insert(all.end(), told.standings.begin(), told.standings.end());
  std::sort(all.begin(), all.end(), [](const Standing& a, const Standing& b) { return a.rank < b.rank; });
  auto found = find_hang(all);
  if (!found || (found->rank == found_rank_ && now - *found_at_ < kFindAgainAfter)) return next;
  found_rank_ = found->rank;
  found_at_ = now;
  next.found = std::move(found);
  for (const auto& [from, told] : told_)
    for (const Standing& one : told.standings)
      if (one.rank == found_rank_) next.node = from;
  return next;
}

}  // namespace ddprun::rendezvous
