#include "agent/machine/health_check.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "agent/process/exit_status.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/thread.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kReasonMax = 200;  // bytes of the command's line
constexpr std::chrono::milliseconds kPollInterval{5};

}  // namespace

HealthCheck::HealthCheck(asio::io_context& io, BuiltIn built_in, std::string command,
                         std::vector<std::string> environment, std::function<void()> on_change, HealthTiming timing)
    : built_in_(std::move(built_in)),
      has_command_(!command.empty()),
      command_(io, std::move(command), std::move(environment), true),
      on_change_(std::move(on_change)),
      timing_(timing),
      timer_(io),
      retry_(timing.retry_first) {}

struct HealthCheck::Answer {
  std::mutex mutex;
  std::optional<std::string> why;
};

void HealthCheck::check() {
  if (stopped_ || std::exchange(checking_, true)) return;
  if (!built_in_) return run_command();
  const auto answer = std::make_shared<Answer>();
  std::string refused = start_detached([answer, built_in = built_in_] {
    std::string why = built_in();
    const std::lock_guard lock(answer->mutex);
    answer->why = std::move(why);
  });
  if (!refused.empty()) return take(std::move(refused));
  await_built_in(answer, Clock::now() + timing_.built_in_max);
}

void HealthCheck::await_built_in(const std::shared_ptr<Answer>& answer, TimePoint until) {
  std::optional<std::string> why;
  {
    const std::lock_guard lock(answer->mutex);
    why = answer->why;
  }
  if (!why && Clock::now() >= until) why = "its disks or its GPUs do not answer";
  if (why && !why->empty()) return take(std::move(*why));
  if (why) return run_command();
  timer_.expires_after(kPollInterval);
  timer_.async_wait([this, answer, until](const asio::error_code& error) {
    if (!error) await_built_in(answer, until);
  });
}

// One that SIGKILL does not end has failed, too; it is not started again while it is there.
void HealthCheck::run_command() {
  if (!has_command_) return take({});
  if (command_.child()) return take("it is still there after SIGKILL");
  too_slow_ = false;
  timer_.expires_after(timing_.run_max);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    too_slow_ = true;
    command_.kill();
    take("it did not end in time");
  });
  command_.start([this](const auto& status) { ended(status); });
}

void HealthCheck::stop() {
  stopped_ = true;
  timer_.cancel();
  command_.kill();
}

// A sweep of a round's leftovers may have ended it: then it runs again.
void HealthCheck::ended(const std::optional<rendezvous::ExitStatus>& status) {
  if (stopped_ || too_slow_) return;
  timer_.cancel();
  if (!status) return run_command();
  if (status->ok()) return take({});
  const std::string line = visible(command_.last_line().substr(0, kReasonMax));
  take(line.empty() ? in_words(*status) : in_words(*status) + ": " + line);
}

void HealthCheck::take(std::string why) {
  checking_ = false;
  const bool passes = why.empty();
  why_ = std::move(why);
  const bool changed = std::exchange(passed_, passes) != passes;
  if (passes) {
    retry_ = timing_.retry_first;
  } else {
    timer_.expires_after(retry_);
    timer_.async_wait([this](const asio::error_code& error) {
      if (!error) check();
    });
    retry_ = std::min<Duration>(2 * retry_, timing_.retry_max);
  }
  if (changed) on_change_();
}

}  // namespace ddprun::agent
