// A clock that only the simulation moves, and a network between its nodes: links that keep the order of messages,
// single messages that may be lost, late or duplicated, and partitions. All randomness comes from one seed.
#pragma once
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <unordered_map>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::test {

using rendezvous::NodeId;

class Network {
 public:
  using LinkId = int;
  explicit Network(std::uint64_t seed) : random_(seed) {}

  TimePoint now() const { return now_; }
  void after(Duration delay, std::function<void()> what);
  // Executes the next event; false: no event is left.
  bool step();

  std::uint64_t draw() { return random_(); }
  int up_to(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most + 1)); }
  Duration milliseconds(int max) { return std::chrono::milliseconds(random_() % static_cast<unsigned>(max)); }
  bool chance(double probability) { return std::uniform_real_distribution<>()(random_) < probability; }

  // From now on only nodes of the same side reach each other. All nodes begin on side 0.
  void put(NodeId node, int side);
  int side(NodeId node) const { return node < sides_.size() ? sides_[node] : 0; }
  bool reaches(NodeId one, NodeId other) const { return side(one) == side(other); }

  // A link delivers in order; messages blocked by a partition arrive when it is over.
  LinkId open(NodeId one, NodeId other);
  // The node at the other end; 0: the link is closed.
  NodeId other_end(LinkId link, NodeId one) const;
  void send(LinkId link, NodeId to, std::function<void()> what);
  void close(LinkId link) { links_.erase(link); }  // messages in flight are lost

  // A single message, without a link.
  void post(NodeId from, NodeId to, const std::function<void()>& what);

 private:
  struct Event {  // what: index in callbacks_, so that a heap moves little
    TimePoint when;
    std::uint64_t order;
    std::size_t what;
    bool operator<(const Event& other) const { return when != other.when ? when > other.when : order > other.order; }
  };
  struct Queue {
    std::vector<std::function<void()>> items = {};
    std::size_t first = 0;
  };
  struct Link {
    NodeId ends[2];
    Queue waiting[2];   // by receiving end
    TimePoint last[2];  // last arrival
  };
  void deliver(LinkId link, int end);

  std::mt19937_64 random_;
  std::priority_queue<Event> events_;
  std::vector<std::function<void()>> callbacks_;
  std::vector<std::size_t> free_;  // indices of callbacks_
  TimePoint now_;
  std::uint64_t order_ = 0;
  std::vector<int> sides_;  // side by node
  std::unordered_map<LinkId, Link> links_;
  LinkId last_link_ = 0;
};

}  // namespace ddprun::test
