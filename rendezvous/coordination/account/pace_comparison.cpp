#include "rendezvous/coordination/account/pace_comparison.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kMedianShare = 4;  // medians are taken again when this part of the ranks has a new window
constexpr double kRatioMax = 100;
constexpr double kLeastMicroseconds = 1;

// The upper or lower one of an even number.
template <class Value>
double median_of(std::vector<Value>& values, bool upper) {
  if (values.empty()) return 0;
  const std::size_t at = upper ? values.size() / 2 : (values.size() - 1) / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

}  // namespace

double total_time(const Pace& window) {
  return static_cast<double>(window.compute_us) + static_cast<double>(window.load_us) +
         static_cast<double>(window.wait_us);
}

double time_ratio(double own, double other) {
  return std::min(kRatioMax, std::max(own, kLeastMicroseconds) / std::max(other, kLeastMicroseconds));
}

void UsualTime::add(double microseconds) {
  if (count_++ > 0) last_[(count_ - 2) % kWindows] = static_cast<float>(microseconds);
}

std::optional<double> UsualTime::value() const {
  if (count_ <= kKnown) return {};
  std::vector<float> values(last_.begin(), last_.begin() + static_cast<std::ptrdiff_t>(std::min(count_ - 1, kWindows)));
  return median_of(values, false);
}

std::optional<double> UsualTime::longest() const {
  if (count_ <= kKnown) return {};
  return *std::max_element(last_.begin(), last_.end());  // those that are not there yet are 0
}

void PaceComparison::add(const Pace& window) {
  if (window.steps == 0) return;
  Rank& rank = ranks_[window.rank];
  const auto steps = static_cast<double>(window.steps);
  rank.per_step = {static_cast<double>(window.compute_us) / steps, static_cast<double>(window.load_us) / steps};
  rank.step = total_time(window) / steps;
  ++new_windows_;
}

bool PaceComparison::is_due() const { return new_windows_ > 0 && new_windows_ * kMedianShare >= ranks_.size(); }

void PaceComparison::take_medians() {
  new_windows_ = 0;
  std::vector<double> values;
  const auto median = [&](const auto& value, bool upper) {
    values.clear();
    for (const auto& [number, rank] : ranks_) values.push_back(value(rank));
    return median_of(values, upper);
  };
  median_step_ = median([](const Rank& rank) { return rank.step; }, false);
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    const double middle = median([&](const Rank& rank) { return rank.per_step[phase]; }, false);
    const auto distance = [&](const Rank& rank) { return std::abs(rank.per_step[phase] - middle); };
    medians_[phase] = {middle, median(distance, true)};
  }
}

double PaceComparison::reference_of_two(int rank, std::size_t phase) const {
  const auto& [other_number, other] = ranks_.begin()->first == rank ? *ranks_.rbegin() : *ranks_.begin();
  const double usual_of_other = other.usual[phase].value().value_or(0);
  const double of_other = std::max(other.per_step[phase], usual_of_other);
  const double most = kTwoRanks * of_other;
  return std::clamp(usual(rank, phase).value_or(most), of_other, most);
}

PaceComparison::Result PaceComparison::compare(int rank, std::size_t phase) const {
  const Rank& of = ranks_.at(rank);
  const bool two = ranks_.size() == 2;
  const Median& median = medians_[phase];
  Result out{of.per_step[phase], median.middle};
  out.ratio = time_ratio(out.own, two ? reference_of_two(rank, phase) : median.middle);
  out.excess = out.own - median.middle;
  out.slow =
      out.ratio >= kSlow && out.excess >= kShareMin * of.step && (two || out.excess >= kSpreadMin * median.spread);
  return out;
}

bool PaceComparison::is_unusual(int rank, std::size_t phase) const {
  const Rank& of = ranks_.at(rank);
  const double longest = of.usual[phase].longest().value_or(0);
  const double variation = time_ratio(longest, of.usual[phase].value().value_or(0));
  return longest == 0 || of.per_step[phase] >= std::max(kSlow, variation) * longest;
}

void PaceComparison::add_to_usual(int rank, std::size_t phase) {
  Rank& of = ranks_.at(rank);
  of.usual[phase].add(of.per_step[phase]);
}

}  // namespace ddprun::rendezvous
