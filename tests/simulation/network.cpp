#include "tests/simulation/network.h"

#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr int kDelayMs = 20, kLateMs = 1'500;
constexpr Duration kTryAgain = 50ms;
constexpr double kLost = 0.05, kLate = 0.05, kTwice = 0.1;

}  // namespace

void Network::after(Duration delay, std::function<void()> what) {
  std::size_t place = callbacks_.size();
  if (free_.empty()) {
    callbacks_.push_back(std::move(what));
  } else {
    place = free_.back();
    free_.pop_back();
    callbacks_[place] = std::move(what);
  }
  events_.push({now_ + delay, order_++, place});
}

bool Network::step() {
  if (events_.empty()) return false;
  const Event next = events_.top();
  events_.pop();
  now_ = next.when;
  const auto what = std::exchange(callbacks_[next.what], nullptr);
  free_.push_back(next.what);
  what();
  return true;
}

void Network::put(NodeId node, int side) {
  if (node >= sides_.size()) sides_.resize(node + 1);
  sides_[node] = side;
}

NodeId Network::other_end(LinkId link, NodeId one) const {
  const auto found = links_.find(link);
  return found == links_.end() ? 0 : found->second.ends[found->second.ends[0] == one ? 1 : 0];
}

Network::LinkId Network::open(NodeId one, NodeId other) {
  links_[++last_link_] = Link{{one, other}, {}, {now_, now_}};
  return last_link_;
}

void Network::send(LinkId id, NodeId to, std::function<void()> what) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Link& link = found->second;
  const int end = link.ends[0] == to ? 0 : 1;
  link.waiting[end].items.push_back(std::move(what));
  link.last[end] = std::max(link.last[end], now_ + milliseconds(kDelayMs));
  after(link.last[end] - now_, [this, id, end] { deliver(id, end); });
}

void Network::deliver(LinkId id, int end) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Link& link = found->second;
  if (!reaches(link.ends[0], link.ends[1])) return after(kTryAgain, [this, id, end] { deliver(id, end); });
  Queue& queue = link.waiting[end];
  const auto what = std::move(queue.items[queue.first]);
  if (++queue.first == queue.items.size()) {
    queue.items.clear();
    queue.first = 0;
  }
  what();
}

void Network::post(NodeId from, NodeId to, const std::function<void()>& what) {
  const int times = chance(kLost) ? 0 : chance(kTwice) ? 2 : 1;
  for (int i = 0; i < times; ++i)
    after(milliseconds(chance(kLate) ? kLateMs : kDelayMs), [this, from, to, what] {
      if (reaches(from, to)) what();
    });
}

}  // namespace ddprun::test
