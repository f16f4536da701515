// How many bytes a store and its clients hold, and how many they may, so that no client can end the agent by them.
//
// Values, for one thread. What is counted is what is allocated, roughly: strings by their capacity, and for each key,
// value and request what the containers around it take.
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

  // What one holder has of it, given back at its end. The budget must live longer.
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
  MemoryBudget kept;       // keys, values and queues; also a value that is deleted and not yet sent
  MemoryBudget under_way;  // requests that have not come whole, replies that are not sent, names that are waited for
};

// A client may have so much under way however full that is: who has little is never the cause.
constexpr std::size_t kAlwaysAllowedBytes = 4096;

}  // namespace ddprun::rendezvous
