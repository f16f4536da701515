// Counts of values by size, as Prometheus and OpenTelemetry have them. A value.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ddprun::agent {

class Histogram {
 public:
  // `bounds`: the greatest value of each bucket but the last, in ascending order; they must outlive it.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

  void add(double value, std::uint64_t times = 1) {
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    counts_[static_cast<std::size_t>(bucket)] += times;
    count_ += times;
    sum_ += value * static_cast<double>(times);
  }

  std::span<const double> bounds() const { return bounds_; }
  const std::vector<std::uint64_t>& counts() const { return counts_; }  // of each bucket alone
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace ddprun::agent
