// --allow-chaos: faults that a user has this node suffer. The coordinator says which.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "agent/agent.h"
#include "agent/process/process_table.h"

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

void Agent::inject(const rendezvous::InjectFault& message) {
  const std::string why_not = try_to_inject(message);
  if (why_not.empty()) return;
  declined_fault_ = message.fault.id;
  pipes_.print("ddprun: chaos: not done, as " + why_not + ".\n");
}

std::string Agent::try_to_inject(const rendezvous::InjectFault& message) {
  if (!options_.allow_chaos) return "this node was not started with --allow-chaos";
  if (!seat_ || supervisor_.running_round() != message.round) return "its round is over";
  const rendezvous::Fault& fault = message.fault;
  pipes_.print("ddprun: chaos: " + in_words(fault) + ".\n");
  if (fault.kind == FaultKind::cut) return contact_.coordination().cut(fault.time), "";
  if (fault.kind == FaultKind::preempt) {
    if (contact_.signal() != 0) return "this node leaves already";
    return dispatch(Signalled{SIGTERM}), "";
  }
  const std::string rank = "rank " + std::to_string(fault.rank);
  const int local_rank = fault.rank - seat_->first_rank;
  const auto worker = workers_.records().find(local_rank);
  if (worker == workers_.records().end() || worker->second.status || worker->second.pid == 0)
    return rank + " has ended";
  const pid_t pid = worker->second.pid;
  if (fault.kind == FaultKind::disk && !survives_large_files(pid))
    return rank + " would be ended by SIGXFSZ; a program that ignores it gets an error instead";
  carry_out(faults_.begin(fault, local_rank, pid, Clock::now()));
  await_faults();
  return {};
}

// Of workers that still live: a process id may belong to somebody else later.
void Agent::carry_out(const std::vector<FaultTable::Deed>& deeds) {
  using Step = FaultTable::Step;
  for (const FaultTable::Deed& deed : deeds) {
    const auto worker = workers_.records().find(deed.local_rank);
    if (worker == workers_.records().end() || worker->second.pid != deed.pid || worker->second.status) continue;
    const pid_t pid = deed.pid;
    if (deed.step == Step::kill) kill(pid, SIGKILL);
    if (deed.step == Step::crash) kill(pid, SIGSEGV);
    if (deed.step == Step::stop) kill(pid, SIGSTOP);
    if (deed.step == Step::go_on && !suspended_) kill(pid, SIGCONT);
    // A second fault of the kind does not take the first one's limit for the worker's own.
    if (deed.step == Step::limit_memory) memory_limits_.emplace(pid, limit(pid, RLIMIT_AS, address_space(pid)));
    if (deed.step == Step::limit_files) file_limits_.emplace(pid, limit(pid, RLIMIT_FSIZE, kFileBytes));
    if (deed.step == Step::lift_memory && memory_limits_.contains(pid))
      limit(pid, RLIMIT_AS, memory_limits_.extract(pid).mapped());
    if (deed.step == Step::lift_files && file_limits_.contains(pid))
      limit(pid, RLIMIT_FSIZE, file_limits_.extract(pid).mapped());
  }
}

void Agent::await_faults() {
  chaos_timer_.cancel();
  const auto next = faults_.next();
  if (!next) return;
  chaos_timer_.expires_at(*next);
  chaos_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    carry_out(faults_.due(Clock::now()));
    await_faults();
  });
}

void Agent::end_faults() {
  chaos_timer_.cancel();
  carry_out(faults_.end());
  memory_limits_.clear();
  file_limits_.clear();
}

}  // namespace ddprun::agent
