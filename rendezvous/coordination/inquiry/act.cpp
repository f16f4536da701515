#include "rendezvous/coordination/inquiry/act.h"

#include <algorithm>

namespace ddprun::rendezvous {
namespace {

// "2.5"
std::string seconds_text(Duration time) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  std::string rest = std::to_string(1000 + milliseconds % 1000).substr(1);
  rest.erase(rest.find_last_not_of('0') + 1);
  return std::to_string(milliseconds / 1000) + (rest.empty() ? "" : "." + rest);
}

}  // namespace

const char* name_of(ActKind kind) {
  return std::find_if(std::begin(kActs), std::end(kActs), [&](const NamedAct& act) { return act.kind == kind; })->name;
}

std::optional<ActKind> act_named(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kActs), std::end(kActs), [&](const NamedAct& act) { return act.name == name; });
  return found == std::end(kActs) ? std::nullopt : std::optional(found->kind);
}

const char* name_of(FaultKind kind) {
  return std::find_if(std::begin(kFaults), std::end(kFaults), [&](const NamedFault& one) { return one.kind == kind; })
      ->name;
}

std::optional<FaultKind> fault_named(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kFaults), std::end(kFaults), [&](const NamedFault& one) { return one.name == name; });
  return found == std::end(kFaults) ? std::nullopt : std::optional(found->kind);
}

std::string in_words(const Fault& fault) {
  std::string out = name_of(fault.kind);
  if (fault.kind == FaultKind::cut || fault.kind == FaultKind::preempt) out += " the node of";
  out += " rank " + std::to_string(fault.rank);
  if (fault.time > Duration::zero()) out += " for " + seconds_text(fault.time) + " s";
  return out;
}

std::string in_words(const Act& act) {
  if (act.fault) return "fault: " + in_words(*act.fault);
  std::string out = name_of(act.kind);
  if (changes_workers(act.kind)) out += " " + std::to_string(act.workers);
  if (!act.node.empty()) out += " " + act.node;
  if (act.kind == ActKind::resize) out += " " + std::to_string(act.nodes_min) + ":" + std::to_string(act.nodes_max);
  return out;
}

}  // namespace ddprun::rendezvous
