#include "rendezvous/coordination/round/failure_class.h"

#include <algorithm>
#include <csignal>

#include "rendezvous/channel/worker_exit.h"

namespace ddprun::rendezvous {
namespace {

constexpr int kShellSignal = 128;  // what a shell adds to the number of the signal that ended its command
constexpr std::array kCrashSignals = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGSYS};

bool is_crash_code(int code) {
  return std::find(kCrashSignals.begin(), kCrashSignals.end(), code - kShellSignal) != kCrashSignals.end();
}

}  // namespace

std::string name_of(FailureClass kind) {
  for (const NamedFailureClass& known : kFailureClasses)
    if (known.kind == kind) return known.name;
  return {};
}

std::optional<FailureClass> failure_class(std::string_view name) {
  for (const NamedFailureClass& known : kFailureClasses)
    if (known.name == name) return known.kind;
  return {};
}

FailureClass class_of(const ExitStatus& status, bool progressed) {
  if (status.stuck) return FailureClass::unkillable;
  if (status.hung) return FailureClass::hang;
  if (status.start_error != 0) return FailureClass::start;
  if (status.signal != 0 || is_crash_code(status.code)) return FailureClass::crash;
  if (status.code == kWorkerExitUsage && !progressed) return FailureClass::usage;
  return status.code != 0 || status.by_output ? FailureClass::error : FailureClass::clean;
}

}  // namespace ddprun::rendezvous
