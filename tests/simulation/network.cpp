#include "tests/simulation/network.h"

#include <algorithm>
#include <utility>

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;

constexpr int kDelayMs = 20, kLateMs = 1'500;
constexpr Duration kTryAgain = 50ms;
constexpr double kLost = 0.05, kLate = 0.05, kTwice = 0.1;

}  // namespace

void Network::after(Duration delay, std::function<void()> what) {
  future_.push({now_ + delay, order_++, std::move(what)});
}

bool Network::step() {
  if (future_.empty()) return false;
  const auto what = std::move(const_cast<Happening&>(future_.top()).what);  // its order does not depend on it
  now_ = future_.top().when;
  future_.pop();
  what();
  return true;
}

int Network::side(NodeId node) const {
  const auto found = sides_.find(node);
  return found == sides_.end() ? 0 : found->second;
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
  link.waiting[end].push_back(std::move(what));
  link.last[end] = std::max(link.last[end], now_ + milliseconds(kDelayMs));
  after(link.last[end] - now_, [this, id, end] { deliver(id, end); });
}

void Network::deliver(LinkId id, int end) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  Link& link = found->second;
  if (!reaches(link.ends[0], link.ends[1])) return after(kTryAgain, [this, id, end] { deliver(id, end); });
  const auto what = std::move(link.waiting[end].front());
  link.waiting[end].pop_front();
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
