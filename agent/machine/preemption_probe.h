// --preemption-probe: asks a file or a command again and again whether this machine is being preempted.
//
// A file says so by its existence. A command says so by exit code 0; it runs under sh, in a session of its own, without
// input or output, and probe_schedule.h decides when. One that a sweep of a round's leftovers ends is run again.
//
// For the agent's main thread and its io_context. Nothing that it started runs after stop(), or soon ends.
#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/machine/probe_schedule.h"
#include "agent/process/shell_command.h"

namespace ddprun::agent {

struct ProbeTarget {
  std::string text;  // a path, or a shell command
  bool file = false;
};

// What it asks, from the option's text. An absolute path, or one that begins with ./ or ../, without blanks is a file,
// unless it is one that can be run.
ProbeTarget probe_target(const std::string& text, const std::function<bool(const std::string&)>& can_be_run);

class PreemptionProbe {
 public:
  struct Hooks {
    std::function<void(const std::string& why)> on_preempted;  // "/run/preempted exists"; at most once
    std::function<void(const std::string& sentence)> say;      // it cannot ask
    std::function<void()> on_reaped;                           // other children may wait behind ours
  };
  // `environment`: of the command, NAME=value.
  PreemptionProbe(asio::io_context& io, ProbeTarget target, std::vector<std::string> environment, Hooks hooks,
                  ProbeLimits limits = {});
  ~PreemptionProbe();
  PreemptionProbe(const PreemptionProbe&) = delete;
  PreemptionProbe& operator=(const PreemptionProbe&) = delete;

  void start();
  void stop();
  // The command's process, which nobody else may reap.
  std::optional<pid_t> child() const { return command_.child(); }

 private:
  void wait_until(TimePoint when);
  void due();
  void look_for_file();
  void start_command();
  void take(ProbeAnswer answer);

  const ProbeTarget target_;
  const Hooks hooks_;
  const ProbeLimits limits_;
  asio::steady_timer timer_;
  ProbeSchedule schedule_;
  ShellCommand command_;
  bool stopped_ = false;
};

}  // namespace ddprun::agent
