#include "agent/faults/fault_table.h"

#include <algorithm>

namespace ddprun::agent {
namespace {

using namespace std::chrono_literals;
using rendezvous::FaultKind;

constexpr Duration kSlowStopped = 80ms, kSlowRuns = 20ms;
constexpr Duration kMemoryPatience = 3s;  // a worker that needs no more memory lives on

FaultTable::Step first_step(FaultKind kind) {
  switch (kind) {
    case FaultKind::segv:
      return FaultTable::Step::crash;
    case FaultKind::stop:
    case FaultKind::slow:
      return FaultTable::Step::stop;
    case FaultKind::oom:
      return FaultTable::Step::limit_memory;
    case FaultKind::disk:
      return FaultTable::Step::limit_files;
    default:
      return FaultTable::Step::kill;
  }
}

bool lasts(FaultKind kind) {
  return kind == FaultKind::stop || kind == FaultKind::slow || kind == FaultKind::oom || kind == FaultKind::disk;
}

}  // namespace

std::vector<FaultTable::Deed> FaultTable::begin(const rendezvous::Fault& fault, int local_rank, pid_t pid,
                                                TimePoint now) {
  if (lasts(fault.kind)) {
    const TimePoint until = now + (fault.kind == FaultKind::oom ? kMemoryPatience : fault.time);
    const TimePoint next = fault.kind == FaultKind::slow ? std::min(now + kSlowStopped, until) : until;
    const bool stopped = fault.kind == FaultKind::slow || fault.kind == FaultKind::stop;
    lasting_.push_back({fault.kind, local_rank, pid, until, next, stopped});
  }
  return {{first_step(fault.kind), local_rank, pid}};
}

void FaultTable::undo(const Lasting& fault, std::vector<Deed>& deeds) {
  if (fault.stopped) deeds.push_back({Step::go_on, fault.local_rank, fault.pid});
  if (fault.kind == FaultKind::oom) deeds.push_back({Step::lift_memory, fault.local_rank, fault.pid});
  if (fault.kind == FaultKind::disk) deeds.push_back({Step::lift_files, fault.local_rank, fault.pid});
}

std::vector<FaultTable::Deed> FaultTable::due(TimePoint now) {
  std::vector<Deed> deeds;
  for (Lasting& fault : lasting_) {
    if (now < fault.next) continue;
    if (now >= fault.until) {
      if (fault.kind == FaultKind::oom) deeds.push_back({Step::kill, fault.local_rank, fault.pid});
      undo(fault, deeds);
      continue;
    }
    fault.stopped = !fault.stopped;  // slow
    fault.next = std::min(now + (fault.stopped ? kSlowStopped : kSlowRuns), fault.until);
    deeds.push_back({fault.stopped ? Step::stop : Step::go_on, fault.local_rank, fault.pid});
  }
  std::erase_if(lasting_, [&](const Lasting& fault) { return now >= fault.until; });
  return deeds;
}

std::optional<TimePoint> FaultTable::next() const {
  const auto first = std::min_element(lasting_.begin(), lasting_.end(),
                                      [](const Lasting& a, const Lasting& b) { return a.next < b.next; });
  return first == lasting_.end() ? std::nullopt : std::optional(first->next);
}

std::vector<FaultTable::Deed> FaultTable::end() {
  std::vector<Deed> deeds;
  for (const Lasting& fault : lasting_) undo(fault, deeds);
  lasting_.clear();
  return deeds;
}

}  // namespace ddprun::agent
