#include "trainer/tour/deal.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "ddprun/sampler.h"
#include "trainer/tour/operation_report.h"

namespace ddprun::train {
namespace {

std::int64_t count_samples(const Shares& shares) {
  std::int64_t count = 0;
  for (const auto& share : shares) count += static_cast<std::int64_t>(share.size());
  return count;
}

std::int64_t count_different(const Shares& shares) {
  std::set<std::int64_t> all;
  for (const auto& share : shares) all.insert(share.begin(), share.end());
  return static_cast<std::int64_t>(all.size());
}

std::string summary_of(const Deal& deal) {
  const std::int64_t all = count_samples(deal.shares), different = count_different(deal.shares),
                     left_out = deal.samples - different;
  std::string text = std::to_string(different) + " different samples";
  if (all > different) text += ", and " + std::to_string(all - different) + " assigned again";
  if (left_out > 0) text += ", and " + std::to_string(left_out) + " left out";
  return text + ".";
}

// "3 1", "4 0*": the samples of each batch.
std::vector<std::string> batches_of(const std::vector<std::int64_t>& share, const std::vector<bool>& again,
                                    std::int64_t batch_size) {
  std::vector<std::string> batches;
  for (std::size_t i = 0; i < share.size(); ++i) {
    const bool first = i % static_cast<std::size_t>(batch_size) == 0;
    if (first) batches.emplace_back();
    batches.back() += (first ? "" : " ") + std::to_string(share[i]) + (again[i] ? "*" : "");
  }
  return batches;
}

}  // namespace

std::vector<Deal> deals_of_rank(int rank, int world_size, std::int64_t samples) {
  const auto deal = [&](const std::string& title, const std::string& meaning, std::vector<std::int64_t> share,
                        std::optional<std::int64_t> expected = {}) {
    return Deal{.title = title,
                .meaning = meaning,
                .samples = samples,
                .expected = expected.value_or(samples),
                .shares = {std::move(share)}};
  };
  const Sampling in_order{.dataset_size = samples, .rank = rank, .world_size = world_size, .shuffle = false};
  Sampling shuffled = in_order, dropping = in_order;
  shuffled.shuffle = true;
  dropping.drop_last = samples >= world_size;  // with fewer samples than ranks none would be left
  std::vector<std::int64_t> everything(static_cast<std::size_t>(samples));
  std::iota(everything.begin(), everything.end(), 0);

  DistributedSampler without_set_epoch(shuffled), with_set_epoch(shuffled);
  with_set_epoch.set_epoch(1);
  return {deal("without a DistributedSampler", "every rank goes through the whole data set.", everything),
          deal("in order", "every rank takes each world_size-th sample.", DistributedSampler(in_order).indices()),
          deal("shuffled, epoch 0", "all ranks draw the same order from the seed, and divide it.",
               DistributedSampler(shuffled).indices()),
          deal("shuffled, epoch 1, after set_epoch(1)", "another order, from seed + epoch.", with_set_epoch.indices()),
          deal("shuffled, epoch 1, set_epoch() forgotten", "the order of epoch 0 again.", without_set_epoch.indices()),
          deal("in order, drop_last",
               dropping.drop_last ? "the tail that would not fill all ranks is left out."
                                  : "fewer samples than ranks: drop_last would leave none, and is off.",
               DistributedSampler(dropping).indices(), dropping.drop_last ? samples - samples % world_size : samples)};
}

std::vector<Deal> gathered(std::vector<Deal> deals, const std::vector<Shares>& by_rank) {
  for (std::size_t i = 0; i < deals.size(); ++i) {
    deals[i].shares.clear();
    for (const Shares& shares : by_rank) deals[i].shares.push_back(shares.at(i));
  }
  return deals;
}

std::vector<std::vector<bool>> dealt_before(const Shares& shares) {
  std::vector<std::vector<bool>> result;
  std::size_t longest = 0;
  for (const auto& share : shares) {
    result.emplace_back(share.size(), false);
    longest = std::max(longest, share.size());
  }
  std::set<std::int64_t> dealt;
  for (std::size_t position = 0; position < longest; ++position)
    for (std::size_t rank = 0; rank < shares.size(); ++rank)
      if (position < shares[rank].size()) result[rank][position] = !dealt.insert(shares[rank][position]).second;
  return result;
}

std::string text_of(const Deal& deal) {
  const auto again = dealt_before(deal.shares);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t rank = 0; rank < deal.shares.size(); ++rank) {
    rows.push_back({"rank " + std::to_string(rank)});
    for (std::size_t i = 0; i < deal.shares[rank].size(); ++i)
      rows.back().push_back(std::to_string(deal.shares[rank][i]) + (again[rank][i] ? "*" : ""));
  }
  return deal.title + ": " + deal.meaning + "\n" + table(rows) + "  " + summary_of(deal) + "\n";
}

std::string batches_text(const Deal& deal, std::int64_t batch_size) {
  const auto again = dealt_before(deal.shares);
  std::vector<std::vector<std::string>> rows{{""}};
  for (std::size_t rank = 0; rank < deal.shares.size(); ++rank) {
    rows.push_back({"rank " + std::to_string(rank)});
    for (std::string& batch : batches_of(deal.shares[rank], again[rank], batch_size))
      rows.back().push_back(std::move(batch));
    for (std::size_t step = rows.front().size(); step < rows.back().size(); ++step)
      rows.front().push_back("step " + std::to_string(step));
  }
  const auto all = static_cast<std::size_t>(batch_size) * deal.shares.size();
  return deal.title + ", in batches of " + std::to_string(batch_size) + ", one for each rank: up to " +
         counted(all, "sample") + " a step.\n" + table(rows);
}

std::vector<std::string> errors_of(const std::vector<Deal>& deals) {
  std::vector<std::string> result;
  for (const Deal& deal : deals) {
    const std::size_t length = deal.shares.front().size();
    for (std::size_t rank = 0; rank < deal.shares.size(); ++rank)
      if (deal.shares[rank].size() != length)
        result.push_back(deal.title + ": rank " + std::to_string(rank) + " has " +
                         counted(deal.shares[rank].size(), "sample") + " where rank 0 has " + std::to_string(length) +
                         ".");
    const std::int64_t different = count_different(deal.shares);
    if (different != deal.expected)
      result.push_back(deal.title + ": " + std::to_string(different) + " different samples were assigned, and not " +
                       std::to_string(deal.expected) + ".");
  }
  return result;
}

}  // namespace ddprun::train
