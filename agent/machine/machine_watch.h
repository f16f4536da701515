// Whether this machine may take part in rounds, and whether it is being preempted.
//
// For the thread of the io_context; hooks are called there.
#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "agent/machine/health_check.h"
#include "agent/machine/machine_limits.h"
#include "agent/machine/preemption_probe.h"

namespace ddprun::agent {

struct MachineOptions {
  MachineLimits limits = {};
  std::vector<std::string> folders = {};      // that the job writes to, for the limits
  std::string health_check = {};              // a shell command; empty: none
  std::optional<ProbeTarget> probe = {};      // says that this machine is being preempted
  std::vector<std::string> environment = {};  // of both commands
};

class MachineWatch {
 public:
  struct Hooks {
    std::function<void(const std::string& why)> on_preempted;
    std::function<void()> on_health;                       // a check has ended with another result
    std::function<void(const std::string& sentence)> say;  // the probe cannot ask
    std::function<void()> on_reaped;                       // other children may wait behind ours
  };
  MachineWatch(asio::io_context& io, MachineOptions options, Hooks hooks);

  // Begins to ask whether it is being preempted.
  void start();
  void stop();
  // True: whether it may take part is known. False: on_health() is called when it is.
  bool known_or_check();
  // Why it may not take part; empty: it may.
  std::string unfit() const;
  // A worker failed here: what was found counts no longer.
  void suspect();
  // Processes that nobody else may reap or end.
  std::vector<pid_t> children() const;

 private:
  std::optional<HealthCheck> health_;
  std::optional<PreemptionProbe> probe_;
};

}  // namespace ddprun::agent
