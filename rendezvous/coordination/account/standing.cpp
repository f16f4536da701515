#include "rendezvous/coordination/account/standing.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <tuple>

#include "rendezvous/coordination/account/late.h"
#include "rendezvous/coordination/account/ranks_in_words.h"
#include "rendezvous/coordination/account/record_finding.h"

namespace ddprun::rendezvous {
namespace {

using Chosen = std::vector<const Standing*>;

constexpr double kLateShare = 0.75;
constexpr std::chrono::seconds kRecordsLimit{10};  // a record that has not come by then will not come

Chosen chosen(const std::vector<Standing>& from, const std::function<bool(const Standing&)>& test) {
  Chosen out;
  for (const Standing& one : from)
    if (test(one)) out.push_back(&one);
  return out;
}

bool is_there(const Standing& one) { return one.activity != Activity::ended; }
bool waits(const Standing& one) { return one.activity == Activity::wait && !one.stopped; }
// The others may rightly wait for it.
bool is_busy(const Standing& one) {
  return (one.activity == Activity::save || one.activity == Activity::evaluate) && !one.overdue && !one.stopped;
}

std::string in_seconds(Duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(time).count());
  return text;
}

std::string in_words(const Chosen& standings) {
  std::vector<int> ranks;
  for (const Standing* one : standings) ranks.push_back(one->rank);
  return ranks_in_words(ranks);
}

// "recv 3" and "send 3" name the message's other end.
std::string in_words(const std::string& collective) {
  if (collective.starts_with("recv ")) return "recv from rank " + collective.substr(5);
  if (collective.starts_with("send ")) return "send to rank " + collective.substr(5);
  return collective.empty() ? "a collective" : collective;
}

std::string doing(const Standing& one) {
  const std::string time = in_seconds(one.age);
  if (!one.held.empty()) return "has been held by the kernel for " + time + " in " + one.held;
  if (one.stopped) return "has been stopped for " + time + ", in " + name_of(one.activity);
  switch (one.activity) {
    case Activity::start:
      return "has been starting for " + time;
    case Activity::load:
      return "has waited for data for " + time;
    case Activity::wait:
      return "has waited in " + in_words(one.collective) + " for " + time;
    case Activity::save:
      return "has been saving for " + time;
    case Activity::evaluate:
      return "has evaluated for " + time;
    case Activity::end:
    case Activity::ended:
      return "has been ending for " + time;
    case Activity::compute:
      break;
  }
  return "has computed for " + time;
}

// The collective that most of them are in.
std::string collective_of(const Chosen& waiting) {
  std::map<std::string, int> count;
  for (const Standing* one : waiting) ++count[one->collective];
  const auto most =
      std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return in_words(most == count.end() ? "" : most->first);
}

std::string who_waits(const Chosen& waiting) {
  if (waiting.empty()) return {};
  return "; " + in_words(waiting) + (waiting.size() == 1 ? " waits" : " wait") + " for it in " + collective_of(waiting);
}

// The one that is furthest behind, then one that works, as the others may wait for its file, then the one that has
// stood still for the longest.
const Standing& furthest_behind(const Chosen& ranks) {
  return **std::min_element(ranks.begin(), ranks.end(), [](const Standing* a, const Standing* b) {
    return std::tuple(a->step.has_value(), a->step.value_or(0), !a->works, b->age) <
           std::tuple(b->step.has_value(), b->step.value_or(0), !b->works, a->age);
  });
}

// Ranks that wait in the same collective after the same step.
using Place = std::pair<std::string, std::optional<std::uint64_t>>;

// A ring's last packets may be missing on one rank while another is in the next step already: the network's delay.
bool may_be_one_collective(const Place& a, const Place& b) {
  const std::uint64_t first = a.second.value_or(0), second = b.second.value_or(0);
  return a.first == b.first && (first < second ? second - first : first - second) <= 1;
}

// Most are where all should be. Of two equal groups the one that began to wait last has left the others' collective
// out.
std::optional<HangFinding> odd_one_out(const Chosen& waiting) {
  std::map<Place, Chosen> places;
  for (const Standing* one : waiting) places[{one->collective, one->step}].push_back(one);
  if (places.size() < 2) return {};
  const auto near = [&](const auto& place) { return may_be_one_collective(place.first, places.begin()->first); };
  if (std::all_of(places.begin(), places.end(), near)) return {};
  const auto arrived = [](const Chosen& there) {
    return (*std::min_element(there.begin(), there.end(), [](const auto* a, const auto* b) { return a->age < b->age; }))
        ->age;
  };
  const auto odd = std::min_element(places.begin(), places.end(), [&](const auto& a, const auto& b) {
    return std::tuple(a.second.size(), arrived(a.second)) < std::tuple(b.second.size(), arrived(b.second));
  });
  Chosen others;
  for (const Standing* one : waiting)
    if (std::find(odd->second.begin(), odd->second.end(), one) == odd->second.end()) others.push_back(one);
  const Standing& culprit = *odd->second.front();
  const Standing& other = *others.front();
  std::string where = other.collective.empty() ? "another collective" : in_words(other.collective);
  if (other.collective == culprit.collective) where = "it";
  if (other.step != culprit.step) where += other.step ? " after step " + std::to_string(*other.step) : " at the start";
  return HangFinding{culprit.rank, in_words(culprit) + "; " + in_words(others) +
                                       (others.size() == 1 ? " waits" : " wait") + " in " + where};
}

std::optional<HangFinding> all_wait(const std::vector<Standing>& all, const Chosen& waiting) {
  if (const Chosen gone = chosen(all, [](const Standing& one) { return !is_there(one); }); !gone.empty())
    return HangFinding{waiting.front()->rank, in_words(*waiting.front()) + "; " + in_words(gone) +
                                                  (gone.size() == 1 ? " has" : " have") + " ended"};
  if (auto odd = odd_one_out(waiting)) return odd;
  const bool for_long =
      std::all_of(waiting.begin(), waiting.end(), [](const auto* one) { return one->age >= kAllWaitLimit; });
  if (!for_long) return {};
  return HangFinding{waiting.front()->rank,
                     in_words(*waiting.front()) + ", and so have all others, as when a network is interrupted", true};
}

const Standing* standing_of(int rank, const std::vector<Standing>& standings) {
  const auto one = std::find_if(standings.begin(), standings.end(), [rank](const auto& of) { return of.rank == rank; });
  return one == standings.end() ? nullptr : &*one;
}

struct FoundByRecords {
  HangFinding finding;
  bool certain;
};

// Not before it is overdue, as its agent would not end it; nor where a debugger has it.
std::optional<FoundByRecords> by_records(const std::vector<Standing>& standings,
                                         const std::function<bool(const Standing&)>& is_late) {
  for (const InCall in_call : {InCall::by_its_report, InCall::by_its_record}) {
    const auto found = find_in_records(standings, in_call);
    if (!found) continue;
    const Standing& culprit = *standing_of(found->rank, standings);
    // With NCCL a rank waits for its GPU, by which it cannot be told from one that computes.
    const bool reported = in_call == InCall::by_its_report || culprit.age >= kNobodyWaitsLimit;
    const bool in_vain = std::any_of(found->waiting.begin(), found->waiting.end(),
                                     [&](int rank) { return is_late(*standing_of(rank, standings)); });
    if (!culprit.overdue || culprit.traced || !in_vain || !reported) return {};
    return FoundByRecords{{culprit.rank, in_words(culprit) + "; " + found->text},
                          found->certain || culprit.age >= kRecordsLimit};
  }
  return {};
}

}  // namespace

std::string name_of(Activity activity) {
  for (const NamedActivity& known : kActivities)
    if (known.activity == activity) return known.name;
  return {};
}

std::optional<Activity> activity(std::string_view name) {
  for (const NamedActivity& known : kActivities)
    if (known.name == name) return known.activity;
  return {};
}

std::string in_words(const Standing& one) {
  return doing(one) + (one.step ? ", after step " + std::to_string(*one.step) : ", before its first step");
}

std::function<bool(const Standing&)> late_beside(const std::vector<Standing>& standings) {
  Duration longest = Duration::max();
  for (const Standing& one : standings)
    if (one.overdue) longest = longest == Duration::max() ? one.age : std::max(longest, one.age);
  return [longest](const Standing& one) { return one.overdue || one.age >= kLateShare * longest; };
}

std::optional<HangFinding> find_hang(const std::vector<Standing>& standings) {
  const Chosen present = chosen(standings, is_there);
  if (std::any_of(present.begin(), present.end(), [](const auto* one) { return one->paused || is_busy(*one); }))
    return {};
  const auto recorded = by_records(standings, late_beside(standings));
  if (recorded && recorded->certain) return recorded->finding;
  const Chosen waiting = chosen(standings, waits);
  const Chosen others = chosen(standings, [](const Standing& one) { return is_there(one) && !waits(one); });
  const Chosen overdue =
      chosen(standings, [](const Standing& one) { return is_there(one) && !waits(one) && one.overdue && !one.traced; });
  const auto late = [is_late = late_beside(standings)](const auto* one) { return is_late(*one); };
  if (!overdue.empty()) {
    const Standing& culprit = furthest_behind(overdue);
    // One that has just begun to wait shows only that the others take longer.
    const bool in_vain = std::any_of(waiting.begin(), waiting.end(), late);
    if (!in_vain && !culprit.stopped && culprit.age < kNobodyWaitsLimit) return {};
    return HangFinding{culprit.rank, in_words(culprit) + who_waits(waiting)};
  }
  const bool all_in_vain = std::all_of(waiting.begin(), waiting.end(), late);
  if (!others.empty() || waiting.empty() || !all_in_vain || recorded) return {};
  const auto found = all_wait(standings, waiting);
  // Its agent ends nobody who is not overdue: that is asked again in a moment.
  const bool is_overdue = found && std::any_of(waiting.begin(), waiting.end(), [&](const auto* one) {
                            return one->rank == found->rank && one->overdue;
                          });
  return is_overdue ? found : std::nullopt;
}

}  // namespace ddprun::rendezvous
