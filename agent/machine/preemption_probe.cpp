#include "agent/machine/preemption_probe.h"

#include <unistd.h>

#include <utility>

#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kFileEvery{1};

std::string whole_seconds(Duration time) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count());
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

}  // namespace

ProbeTarget probe_target(const std::string& text, const std::function<bool(const std::string&)>& can_be_run) {
  const bool path = text.starts_with('/') || text.starts_with("./") || text.starts_with("../");
  const bool blanks = text.find_first_of(" \t\n") != std::string::npos;
  return {text, path && !blanks && !can_be_run(text)};
}

PreemptionProbe::PreemptionProbe(asio::io_context& io, ProbeTarget target, std::vector<std::string> environment,
                                 Hooks hooks, ProbeLimits limits)
    : target_(std::move(target)),
      hooks_(std::move(hooks)),
      limits_(limits),
      timer_(io),
      schedule_(Clock::now(), limits),
      command_(io, target_.text, std::move(environment)) {}

PreemptionProbe::~PreemptionProbe() { stop(); }

void PreemptionProbe::start() { wait_until(Clock::now()); }

void PreemptionProbe::stop() {
  stopped_ = true;
  timer_.cancel();
  command_.kill();
}

void PreemptionProbe::wait_until(TimePoint when) {
  if (stopped_) return;
  timer_.expires_at(when);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error && !stopped_) due();
  });
}

void PreemptionProbe::due() {
  if (target_.file) return look_for_file();
  const ProbeTask task = schedule_.due(Clock::now());
  if (task == ProbeTask::kill) command_.kill();
  if (task == ProbeTask::start) start_command();
  if (!stopped_ && schedule_.next() != TimePoint::max()) wait_until(schedule_.next());
}

void PreemptionProbe::look_for_file() {
  if (!exists(target_.text)) return wait_until(Clock::now() + kFileEvery);
  stop();
  hooks_.on_preempted(visible(target_.text) + " exists");
}

void PreemptionProbe::start_command() {
  command_.start([this](const auto& status) {
    take(schedule_.ended(status, Clock::now()));
    hooks_.on_reaped();
  });
}

void PreemptionProbe::take(ProbeAnswer answer) {
  if (stopped_) return;
  const std::string named = "the preemption probe '" + visible(target_.text) + "' ";
  if (answer == ProbeAnswer::cannot_run)
    hooks_.say("sh cannot run " + named + "(--preemption-probe): until it can, no notice comes from it");
  if (answer == ProbeAnswer::too_slow)
    hooks_.say(named + "(--preemption-probe) did not end within " + whole_seconds(limits_.run_max) +
               " s and was killed: it is tried again");
  if (answer != ProbeAnswer::preempted) return wait_until(schedule_.next());
  stop();
  hooks_.on_preempted(named + "exited with 0");
}

}  // namespace ddprun::agent
