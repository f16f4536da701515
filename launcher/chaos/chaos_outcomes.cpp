#include "launcher/chaos/chaos_outcomes.h"

#include <algorithm>

#include "launcher/view/table.h"
#include "launcher/view/units.h"

namespace ddprun::launcher {
namespace {

using nlohmann::json;
using rendezvous::FaultKind;

constexpr double kNinety = 0.9;

bool ends_round(FaultKind kind) {
  return kind == FaultKind::kill || kind == FaultKind::segv || kind == FaultKind::oom || kind == FaultKind::preempt;
}

bool declines(const json& live, std::uint64_t fault) {
  const json ids = live.is_object() && fault != 0 ? live.value("declined_faults", json::array()) : json::array();
  return std::find(ids.begin(), ids.end(), json(fault)) != ids.end();
}
int charged_in(const json& live) { return live.value("restarts", json::object()).value("charged", 0); }

struct Row {
  FaultKind kind;
  int faults = 0, charged = 0;
  std::vector<double> seconds = {};
  std::vector<std::int64_t> lost = {};
};

// By class, in the order of kFaults.
std::vector<Row> rows_of(const std::vector<ChaosOutcome>& outcomes) {
  std::vector<Row> out;
  for (const rendezvous::NamedFault& fault : rendezvous::kFaults) {
    Row row{.kind = fault.kind};
    for (const ChaosOutcome& one : outcomes) {
      if (one.kind != fault.kind) continue;
      ++row.faults;
      row.charged += one.charged;
      if (!one.seconds) continue;
      row.seconds.push_back(*one.seconds);
      row.lost.push_back(one.steps_lost);
    }
    std::sort(row.seconds.begin(), row.seconds.end());
    std::sort(row.lost.begin(), row.lost.end());
    if (row.faults > 0) out.push_back(std::move(row));
  }
  return out;
}

template <class T>
T quantile(const std::vector<T>& sorted, double share) {
  return sorted[std::min(static_cast<std::size_t>(share * static_cast<double>(sorted.size())), sorted.size() - 1)];
}

}  // namespace

bool trains(const json& live) {
  if (!live.is_object() || live.value("state", "") != "running") return false;
  const json ranks = live.value("ranks", json::array());
  return live.value("world_size", 0) > 0 && static_cast<int>(ranks.size()) == live["world_size"] &&
         std::all_of(ranks.begin(), ranks.end(), [](const json& rank) { return rank["step"].is_number(); });
}

Recovery::Recovery(const json& before, const rendezvous::Fault& fault)
    : fault_(fault),
      round_(before.value("round", 0)),
      charged_before_(charged_in(before)),
      run_seconds_(before.value("run_seconds", 0.0)),
      step_(before.value("step", std::int64_t{0})) {}

bool Recovery::on(const json& live, double seconds) {
  if (declines(live, fault_.id)) return declined_ = true;
  if (!trains(live)) return false;
  const std::int64_t step = live["step"];
  const bool started_again = live.value("run_seconds", 0.0) < run_seconds_;
  if (live.value("round", 0) > round_ || started_again) {
    charged_ = started_again ? 0 : std::max(charged_in(live) - charged_before_, 0);
    lost_ = std::max<std::int64_t>(step_ - step, 0);
    return true;
  }
  if (ends_round(fault_.kind) || seconds < std::chrono::duration<double>(fault_.time).count()) {
    step_ = std::max(step_, step);
    return false;
  }
  if (!step_at_end_) step_at_end_ = step;
  return step > *step_at_end_;
}

bool all_recovered(const std::vector<ChaosOutcome>& outcomes) {
  return std::all_of(outcomes.begin(), outcomes.end(), [](const ChaosOutcome& one) { return one.seconds.has_value(); });
}

std::string chaos_table(const std::vector<ChaosOutcome>& outcomes) {
  std::vector<std::vector<std::string>> table{
      {"FAULT", "TIMES", "RECOVERED", "SECONDS: MEDIAN", "P90", "MAX", "STEPS LOST: MEDIAN", "MAX", "CHARGED"}};
  for (const Row& row : rows_of(outcomes)) {
    const bool any = !row.seconds.empty();
    const auto seconds = [&](double share) { return any ? formatted("%.2f", quantile(row.seconds, share)) : "-"; };
    const auto lost = [&](double share) { return any ? std::to_string(quantile(row.lost, share)) : "-"; };
    table.push_back({name_of(row.kind), std::to_string(row.faults), std::to_string(row.seconds.size()), seconds(0.5),
                     seconds(kNinety), seconds(1), lost(0.5), lost(1), std::to_string(row.charged)});
  }
  return table_text(table);
}

json chaos_json(std::uint64_t seed, const std::vector<ChaosOutcome>& outcomes, int declined) {
  json faults = json::array();
  for (const ChaosOutcome& one : outcomes)
    faults.push_back({{"fault", name_of(one.kind)},
                      {"recovery_seconds", one.seconds ? json(*one.seconds) : json()},
                      {"steps_lost", one.steps_lost},
                      {"restarts_charged", one.charged}});
  return {{"seed", seed},
          {"all_recovered", all_recovered(outcomes)},
          {"declined", declined},
          {"faults", std::move(faults)}};
}

}  // namespace ddprun::launcher
