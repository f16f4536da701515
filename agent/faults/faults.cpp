#include "agent/faults/faults.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "rendezvous/coordination/inquiry/act.h"

namespace ddprun::agent {
namespace {

using rendezvous::FaultKind;

constexpr rlim_t kFileBytes = 4096;
constexpr long kPage = 4096;

// The worker's address space, in bytes.
rlim_t address_space(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  long pages = 0;
  return file >> pages ? static_cast<rlim_t>(pages * kPage) : RLIM_INFINITY;
}

// Whether a file that grows too large is an error for it, not its end.
bool survives_large_files(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);)
    if ((line.starts_with("SigIgn:") || line.starts_with("SigCgt:")) &&
        std::stoull(line.substr(line.find_first_not_of(" \t", 7)), nullptr, 16) >> (SIGXFSZ - 1) & 1)
      return true;
  return false;
}

// Returns the limit that there was.
rlim_t limit(pid_t pid, __rlimit_resource resource, rlim_t most) {
  rlimit limits{};
  if (prlimit(pid, resource, nullptr, &limits) != 0) return RLIM_INFINITY;
  const rlim_t before = std::exchange(limits.rlim_cur, std::min(most, limits.rlim_max));
  prlimit(pid, resource, &limits, nullptr);
  return before;
}

}  // namespace

Faults::Faults(asio::io_context& io, bool allowed, Hooks hooks)
    : allowed_(allowed), hooks_(std::move(hooks)), timer_(io) {}

void Faults::inject(const rendezvous::Fault& fault, std::optional<int> first_rank) {
  const std::string why_not = try_to_inject(fault, first_rank);
  if (why_not.empty()) return;
  declined_ = fault.id;
  hooks_.print("ddprun: chaos: not done, as " + why_not + ".\n");
}

std::string Faults::try_to_inject(const rendezvous::Fault& fault, std::optional<int> first_rank) {
  if (!allowed_) return "this node was not started with --allow-chaos";
  if (!first_rank) return "its round is over";
  hooks_.print("ddprun: chaos: " + in_words(fault) + ".\n");
  if (fault.kind == FaultKind::cut) return hooks_.cut(fault.time), "";
  if (fault.kind == FaultKind::preempt) return hooks_.preempt() ? "" : "this node leaves already";
  const std::string rank = "rank " + std::to_string(fault.rank);
  const int local_rank = fault.rank - *first_rank;
  const auto pid = hooks_.worker(local_rank);
  if (!pid) return rank + " has ended";
  if (fault.kind == FaultKind::disk && !survives_large_files(*pid))
    return rank + " would be ended by SIGXFSZ; a program that ignores it gets an error instead";
  carry_out(table_.begin(fault, local_rank, *pid, Clock::now()));
  await();
  return {};
}

// Of workers that still live: a process id may belong to somebody else later.
void Faults::carry_out(const std::vector<FaultTable::Deed>& deeds) {
  using Step = FaultTable::Step;
  for (const FaultTable::Deed& deed : deeds) {
    const pid_t pid = deed.pid;
    if (hooks_.worker(deed.local_rank) != pid) continue;
    if (deed.step == Step::kill) kill(pid, SIGKILL);
    if (deed.step == Step::crash) kill(pid, SIGSEGV);
    if (deed.step == Step::stop) kill(pid, SIGSTOP);
    if (deed.step == Step::go_on && !hooks_.suspended()) kill(pid, SIGCONT);
    // A second fault of the kind does not take the first one's limit for the worker's own.
    if (deed.step == Step::limit_memory) memory_limits_.emplace(pid, limit(pid, RLIMIT_AS, address_space(pid)));
    if (deed.step == Step::limit_files) file_limits_.emplace(pid, limit(pid, RLIMIT_FSIZE, kFileBytes));
    if (deed.step == Step::lift_memory && memory_limits_.contains(pid))
      limit(pid, RLIMIT_AS, memory_limits_.extract(pid).mapped());
    if (deed.step == Step::lift_files && file_limits_.contains(pid))
      limit(pid, RLIMIT_FSIZE, file_limits_.extract(pid).mapped());
  }
}

void Faults::await() {
  timer_.cancel();
  const auto next = table_.next();
  if (!next) return;
  timer_.expires_at(*next);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    carry_out(table_.due(Clock::now()));
    await();
  });
}

void Faults::end() {
  timer_.cancel();
  carry_out(table_.end());
  memory_limits_.clear();
  file_limits_.clear();
}

}  // namespace ddprun::agent
