#include "launcher/view/time_shares.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr double kWindowSeconds = 60, kShareShown = 0.01;

}  // namespace

void TimeShares::take(Rank& rank, const Times& now) {
  if (!rank.window.empty() && now.compute < rank.window.back().compute) rank = {};  // a new round
  const bool is_first = rank.window.empty();
  rank.window.push_back(now);
  while (rank.window.size() > 2 && rank.window[1].at <= now.at - kWindowSeconds) rank.window.pop_front();
  const Times from = is_first ? Times{} : rank.window.front();
  const double load = now.load - from.load, compute = now.compute - from.compute, wait = now.wait - from.wait;
  const double all = load + compute + wait;
  if (all > 0) rank.share = {std::max(load / all, 0.0), std::max(compute / all, 0.0), std::max(wait / all, 0.0)};
}

void TimeShares::take(const nlohmann::json& ranks, double seconds) {
  std::map<int, Rank> known = std::exchange(ranks_, {});
  for (const nlohmann::json& rank : ranks) {
    const int number = rank["rank"];
    Rank& own = ranks_[number] = std::move(known[number]);
    take(own, {rank["load_seconds"], rank["compute_seconds"], rank["wait_seconds"], seconds});
  }
}

std::optional<TimeShare> TimeShares::of(int rank) const {
  const auto known = ranks_.find(rank);
  return known == ranks_.end() ? std::nullopt : known->second.share;
}

StyledLine share_bar(const TimeShare& share, int cells) {
  const auto cells_of = [&](double part) {
    return std::max(static_cast<int>(std::lround(part * cells)), part >= kShareShown ? 1 : 0);
  };
  const int load = std::min(cells_of(share.load), cells), wait = std::min(cells_of(share.wait), cells - load);
  int compute = cells - load - wait;
  int last = wait;
  if (compute == 0 && share.compute >= kShareShown && wait > 1) ++compute, --last;
  const auto letters = [](int count, char letter) { return std::string(static_cast<std::size_t>(count), letter); };
  return StyledLine()
      .add(letters(load, 'L'), Style::load)
      .add(letters(compute, 'C'), Style::compute)
      .add(letters(last, 'W'), Style::wait);
}

}  // namespace ddprun::launcher
