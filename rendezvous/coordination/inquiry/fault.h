// A fault that a user has a job suffer (`ddprun chaos`), to see it recover.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "rendezvous/base/time.h"

namespace ddprun::rendezvous {

enum class FaultKind {
  kill,     // a worker gets SIGKILL
  stop,     // SIGSTOP, and SIGCONT after `time`
  segv,     // SIGSEGV
  oom,      // it gets no more memory; SIGKILL if it lives on without
  cut,      // its node's connection to the coordinator is closed for `time`
  slow,     // it runs a fifth of `time` only
  disk,     // it cannot write files beyond 4 KiB for `time`
  preempt,  // its node is told of a preemption
};
struct NamedFault {
  FaultKind kind;
  const char* name;
};
constexpr NamedFault kFaults[] = {{FaultKind::kill, "kill"}, {FaultKind::stop, "stop"},      {FaultKind::segv, "segv"},
                                  {FaultKind::oom, "oom"},   {FaultKind::cut, "cut"},        {FaultKind::slow, "slow"},
                                  {FaultKind::disk, "disk"}, {FaultKind::preempt, "preempt"}};
const char* name_of(FaultKind kind);
std::optional<FaultKind> fault_named(std::string_view name);

struct Fault {
  FaultKind kind = FaultKind::kill;
  int rank = 0;
  Duration time = {};    // whole milliseconds; of stop, cut, slow and disk
  std::uint64_t id = 0;  // by who asks for it, to learn whether a node has declined it

  friend bool operator==(const Fault&, const Fault&) = default;
};
constexpr std::chrono::minutes kFaultTimeMax{10};

}  // namespace ddprun::rendezvous
