#include "agent/desk/node_view.h"

#include <algorithm>
#include <utility>

#include "rendezvous/coordination/wire/control_message.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kStacksLimit{8};
constexpr double kSamplesMax = 2e9;
// What reports nothing for so long may be one of the many programs that do not speak the channel.
constexpr std::chrono::seconds kSilentAfter{10};

// All nodes' texts pass through the coordinator's one connection to the asker.
constexpr std::size_t kAllNodesMax = 8 << 20;

std::string cut(std::string text, int nodes) {
  const std::size_t share = kAllNodesMax / static_cast<std::size_t>(std::max(nodes, 1));
  const std::size_t most = std::min(share, rendezvous::kStacksTextMax) - 64;
  if (text.size() > most) text = text.substr(0, text.rfind('\n', most)) + "\n... (cut)\n";
  return text;
}

}  // namespace

bool NodeView::has_rank_0() const {
  const rendezvous::Seat* seat = hooks_.seat();
  return seat && seat->first_rank == 0;
}

rendezvous::NodeReport NodeView::report() const {
  rendezvous::NodeReport out{.name = host_};
  hooks_.complete(out);
  const rendezvous::Seat* seat = hooks_.seat();
  if (!seat) return out;
  out.round = seat->round;
  out.group_rank = seat->group_rank;
  if (!hooks_.has_workers()) return out;
  for (const rendezvous::Standing& one : hooks_.standings())
    out.ranks.push_back(view_of(one, one.rank - seat->first_rank));
  if (const auto step = hooks_.recent_step())
    out.step_us = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(*step).count());
  std::sort(out.ranks.begin(), out.ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return out;
}

rendezvous::RankView NodeView::view_of(const rendezvous::Standing& standing, int local_rank) const {
  rendezvous::RankView out{.rank = standing.rank,
                           .activity = standing.activity,
                           .collective = standing.collective,
                           .step = standing.step,
                           .age = standing.age,
                           .stopped = standing.stopped,
                           .paused = standing.paused,
                           .held = standing.held};
  const std::optional<pid_t> pid = hooks_.running(local_rank);
  if (!pid) return out;
  out.pid = *pid;
  const Progress progress = hooks_.progress(local_rank);
  out.silent = !progress.has_reported() && out.age >= kSilentAfter;
  if (const auto use = hooks_.use(local_rank)) {
    out.memory = use->memory;
    out.processors = use->processors;
    out.still = out.silent && use->still;
    if (out.still) out.age = *use->still;
  }
  const TimePoint now = Clock::now();  // not before the progress: no age is negative
  out.snapshot_step = progress.snapshot_step;
  if (progress.snapshot_at) out.snapshot_age = now - *progress.snapshot_at;
  out.snapshot_bytes = progress.snapshot_bytes;
  out.samples_per_second = static_cast<int>(std::clamp(progress.samples_per_second.value_or(0), 0.0, kSamplesMax));
  out.loss = progress.loss;
  out.total_steps = progress.total_steps;
  if (progress.beat) {
    out.load = progress.beat->load;
    out.compute = progress.beat->compute;
    out.wait = progress.beat->wait;
  }
  return out;
}

void NodeView::take_stacks(const std::function<void(std::string text)>& taken) const {
  const rendezvous::Seat* const seat = hooks_.seat();
  if (!seat) return;
  std::vector<pid_t> pids;
  std::vector<std::string> headings;
  for (const rendezvous::Standing& one : hooks_.standings()) {
    const std::optional<pid_t> pid = hooks_.running(one.rank - seat->first_rank);
    if (one.activity == rendezvous::Activity::ended || !pid) continue;
    pids.push_back(*pid);
    headings.push_back("rank " + std::to_string(one.rank) + " on " + host_ + ", process " + std::to_string(*pid) +
                       ": " + in_words(one) + "\n");
  }
  if (pids.empty()) return taken("no worker runs on " + host_ + "\n\n");
  hooks_.take_stacks(std::move(pids), kStacksLimit,
                     [headings = std::move(headings), nodes = seat->group_world_size,
                      taken](const std::vector<ProcessStacks>& stacks) {
                       std::string text;
                       for (std::size_t i = 0; i < headings.size(); ++i)
                         text += headings[i] + to_text(stacks[i]) + "\n";
                       taken(cut(std::move(text), nodes));
                     });
}

}  // namespace ddprun::agent
