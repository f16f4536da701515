#include "agent/machine/machine_watch.h"

#include <utility>

namespace ddprun::agent {

MachineWatch::MachineWatch(asio::io_context& io, MachineOptions options, Hooks hooks) {
  if (options.probe)
    probe_.emplace(io, *options.probe, options.environment,
                   PreemptionProbe::Hooks{hooks.on_preempted, hooks.say, hooks.on_reaped});
  if (options.health_check.empty() && !options.limits.any()) return;
  HealthCheck::BuiltIn built_in;
  if (options.limits.any())
    built_in = [limits = options.limits, folders = options.folders] {
      return why_unfit(limits, machine_facts(limits, folders));
    };
  health_.emplace(io, std::move(built_in), std::move(options.health_check), std::move(options.environment),
                  std::move(hooks.on_health));
}

void MachineWatch::start() {
  if (probe_) probe_->start();
}

void MachineWatch::stop() {
  if (probe_) probe_->stop();
  if (health_) health_->stop();
}

bool MachineWatch::known_or_check() {
  if (!health_ || health_->passed()) return true;
  health_->check();
  return false;
}

std::string MachineWatch::unfit() const {
  if (!health_ || health_->passed().value_or(false)) return {};
  return health_->passed() ? health_->why() : "its health check has not ended";
}

void MachineWatch::suspect() {
  if (health_) health_->suspect();
}

std::vector<pid_t> MachineWatch::children() const {
  std::vector<pid_t> out;
  if (const auto child = probe_ ? probe_->child() : std::nullopt) out.push_back(*child);
  if (const auto child = health_ ? health_->child() : std::nullopt) out.push_back(*child);
  return out;
}

}  // namespace ddprun::agent
