// Counts and limits the bytes that a store and its clients hold, so that no client can exhaust the agent's memory.
//
// Values, for one thread. They count roughly what is allocated: strings by their capacity, and for each key, value and
// request what the containers around it take.
#pragma once
#include <cstddef>
#include <limits>
#include <utility>

namespace ddprun::rendezvous {

class MemoryBudget {
 public:
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
  explicit MemoryBudget(std::size_t bytes_max = kNoLimit) : max_(bytes_max) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  bool has_room(std::size_t more = 0) const { return held_ <= max_ && more <= max_ - held_; }
  std::size_t held() const { return held_; }
  std::size_t max() const { return max_; }

  // One holder's share of it, returned by the destructor. The budget must live longer.
  class Charge {
   public:
    explicit Charge(MemoryBudget& budget, std::size_t bytes = 0) : budget_(&budget) { set(bytes); }
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;
    ~Charge() { set(0); }
    void set(std::size_t bytes) { budget_->held_ += bytes - std::exchange(bytes_, bytes); }
    std::size_t bytes() const { return bytes_; }

   private:
    MemoryBudget* budget_;
    std::size_t bytes_ = 0;
  };

 private:
  const std::size_t max_;
  std::size_t held_ = 0;
};

struct StoreMemory {
  explicit StoreMemory(std::size_t bytes_max = MemoryBudget::kNoLimit) : kept(bytes_max), under_way(bytes_max) {}
  MemoryBudget kept;       // keys, values and queues; also deleted values that are not yet sent
  MemoryBudget under_way;  // incomplete requests, unsent replies, names in waits
};

// A client may have this much under way however full the budget is: a client with little is never the cause.
constexpr std::size_t kAlwaysAllowedBytes = 4096;

}  // namespace ddprun::rendezvous
