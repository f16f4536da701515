// Which faults `ddprun chaos` has a job suffer. A value: the same seed and classes give the same list on any machine.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "rendezvous/coordination/inquiry/fault.h"

namespace ddprun::launcher {

class ChaosPlan {
 public:
  ChaosPlan(std::uint64_t seed, std::vector<rendezvous::FaultKind> kinds);

  struct Item {
    rendezvous::FaultKind kind;
    std::uint32_t target;  // taken modulo the number of ranks that there are then
    Duration time;
    rendezvous::Fault of_job(int world_size) const;
  };
  // Each class comes once, in a random order, before any comes again.
  Item next();

 private:
  std::mt19937_64 random_;  // its numbers are the standard's, those of std's distributions are not
  const std::vector<rendezvous::FaultKind> kinds_;
  std::vector<rendezvous::FaultKind> left_;
};

}  // namespace ddprun::launcher
