// Whether this machine may take part in rounds: what --health-limits asks of it, and then --health-check's command,
// which says so by exit code 0. Before the first round, and again after a worker failed here.
//
// A machine that fails it is reported to the coordinator with the reason, of a command the last line that it wrote, and
// is checked again, later and later.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/process/shell_command.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

struct HealthTiming {
  Duration run_max = std::chrono::seconds(60);  // of one run; then it is killed and has failed
  Duration built_in_max = std::chrono::seconds(10);
  Duration retry_first = std::chrono::seconds(1), retry_max = std::chrono::seconds(60);
};

class HealthCheck {
 public:
  // Of the machine itself: why it may not, without asking the command; empty: it may. Called in a thread of its own, as
  // a disk or a driver may not answer, and perhaps still running after our end.
  using BuiltIn = std::function<std::string()>;
  // `command`: empty if there is none. `on_change` is called when a check has ended with another result than the one
  // before it, perhaps within check().
  HealthCheck(asio::io_context& io, BuiltIn built_in, std::string command, std::vector<std::string> environment,
              std::function<void()> on_change, HealthTiming timing = {});

  // Runs it, unless it runs already. Until its end the last result counts.
  void check();
  void stop();
  // Empty: no check has ended since begin, or since suspect().
  std::optional<bool> passed() const { return passed_; }
  // Why it has not passed: "exited with code 1: no free memory on GPU 3".
  const std::string& why() const { return why_; }
  // A worker failed here: the last result counts no longer.
  void suspect() { passed_.reset(); }
  std::optional<pid_t> child() const { return command_.child(); }

 private:
  struct Answer;
  void await_built_in(const std::shared_ptr<Answer>& answer, TimePoint until);
  void run_command();
  void ended(const std::optional<rendezvous::ExitStatus>& status);
  void take(std::string why);  // the result; empty: it passes

  const BuiltIn built_in_;
  const bool has_command_;
  ShellCommand command_;
  const std::function<void()> on_change_;
  const HealthTiming timing_;
  asio::steady_timer timer_;
  Duration retry_;
  std::optional<bool> passed_;
  std::string why_;
  bool checking_ = false, too_slow_ = false, stopped_ = false;
};

}  // namespace ddprun::agent
