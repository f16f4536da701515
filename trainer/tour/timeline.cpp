#include "trainer/tour/timeline.h"

#include <algorithm>
#include <limits>

#include "trainer/tour/clock.h"
#include "trainer/tour/operation_report.h"

namespace ddprun::train {
namespace {

const char* head_of(Activity what) {
  switch (what) {
    case Activity::work:
      return "work";
    case Activity::barrier:
      return "wait (barrier)";
    case Activity::forward:
      return "forward";
    case Activity::backward:
      return "backward";
    case Activity::gradients:
      return "wait (gradients)";
  }
  return "";
}

std::string from_to(const Span& span) { return decimal(span.begin, 1) + " - " + decimal(span.end, 1); }

}  // namespace

ClockOffset offset_from(const std::vector<RoundTrip>& trips) {
  const RoundTrip& best = *std::min_element(trips.begin(), trips.end(), [](const RoundTrip& a, const RoundTrip& b) {
    return a.received - a.sent < b.received - b.sent;
  });
  return {.ms = (best.sent + best.received) / 2 - best.answered, .uncertainty = (best.received - best.sent) / 2};
}

void shift_to_zero(std::vector<Lane>& lanes) {
  double first = std::numeric_limits<double>::infinity();
  for (const Lane& lane : lanes)
    for (const Span& span : lane) first = std::min(first, span.begin);
  for (Lane& lane : lanes)
    for (Span& span : lane) span.begin -= first, span.end -= first;
}

std::string table_of(const std::vector<Lane>& lanes) {
  std::vector<std::vector<std::string>> rows{{"ms"}};
  for (const Span& span : lanes.front()) rows.front().push_back(head_of(span.what));
  for (std::size_t rank = 0; rank < lanes.size(); ++rank) {
    rows.push_back({"rank " + std::to_string(rank)});
    for (const Span& span : lanes[rank]) rows.back().push_back(from_to(span));
  }
  return table(rows);
}

WaitCheck check_wait(const std::vector<Lane>& lanes, const SyncPoint& sync_point, double uncertainty) {
  std::size_t last = 0, first = 0;  // the last to arrive, the first to continue
  const auto wait_of = [&](std::size_t rank) { return lanes[rank].at(sync_point.span); };
  for (std::size_t rank = 1; rank < lanes.size(); ++rank) {
    if (wait_of(rank).begin > wait_of(last).begin) last = rank;
    if (wait_of(rank).end < wait_of(first).end) first = rank;
  }
  const double arrived = wait_of(last).begin, released = wait_of(first).end;
  const bool right = released >= arrived - uncertainty;
  const auto who = [](std::size_t rank, double when) {
    return "rank " + std::to_string(rank) + " at " + decimal(when, 1) + " ms";
  };
  return {sync_point.name + ": the last to arrive was " + who(last, arrived) + ", the first to continue " +
              who(first, released) +
              (right ? ". No rank continued before all had arrived." : ". WRONG: it continued before all had arrived."),
          right};
}

}  // namespace ddprun::train
