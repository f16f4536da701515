// The order of a run's samples: a DistributedSampler's, or with shards a ShardSampler's. A value.
#pragma once
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "ddprun/sampler.h"
#include "ddprun/shard_sampler.h"

namespace ddprun::train {

class RunSampler {
 public:
  explicit RunSampler(const DistributedSampler& sampler) : sampler_(sampler) {}
  explicit RunSampler(ShardSampler sampler) : sampler_(std::move(sampler)) {}

  // For a snapshot's state; one of them is null.
  DistributedSampler* distributed() { return std::get_if<DistributedSampler>(&sampler_); }
  ShardSampler* sharded() { return std::get_if<ShardSampler>(&sampler_); }

  std::int64_t epoch() const {
    return std::visit([](const auto& one) { return one.epoch(); }, sampler_);
  }
  void set_epoch(std::int64_t epoch) {
    std::visit([&](auto& one) { one.set_epoch(epoch); }, sampler_);
  }
  std::int64_t size() const {
    return std::visit([](const auto& one) { return one.size(); }, sampler_);
  }
  std::vector<std::int64_t> indices() const {
    return std::visit([](const auto& one) { return one.indices(); }, sampler_);
  }
  void advance(std::int64_t samples_per_rank) {
    std::visit([&](auto& one) { one.advance(samples_per_rank); }, sampler_);
  }

 private:
  std::variant<DistributedSampler, ShardSampler> sampler_;
};

}  // namespace ddprun::train
