#include "trainer/loop/next_character.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rendezvous/base/error.h"

namespace ddprun::train {

std::int64_t next_character(const std::vector<double>& scores, const Sampling& sampling, SampleRng& rng) {
  if (!std::all_of(scores.begin(), scores.end(), [](double score) { return std::isfinite(score); }))
    throw Error("the model cannot write", "its scores are not finite numbers", "Take an earlier snapshot.");
  std::vector<std::int64_t> order(scores.size());  // the highest score first; of equal ones the first
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](std::int64_t id) { return scores[static_cast<std::size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return score(a) > score(b); });
  if (sampling.temperature == 0) return order.front();
  if (sampling.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(sampling.top_k)));
  const auto weight = [&](std::int64_t id) {
    return std::exp((score(id) - score(order.front())) / sampling.temperature);
  };
  double sum = 0;
  for (const std::int64_t id : order) sum += weight(id);
  double left = rng.uniform() * sum;
  for (const std::int64_t id : order)
    if ((left -= weight(id)) < 0) return id;
  return order.front();  // by rounding nothing was left to choose
}

}  // namespace ddprun::train
