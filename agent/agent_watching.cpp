// What may happen while workers run or are awaited: a preemption that a probe notices, the end of --max-run, a machine
// that is not fit, output that a rule is about, a file timer that expires.
#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/agent.h"
#include "agent/process/job_cookie.h"

namespace ddprun::agent {

MachineOptions Agent::machine_options() const {
  const Environment own{{kCookieVariable, options_.command.job.cookie}};
  return {options_.machine_limits, options_.folders, options_.health_check, options_.probe,
          merged(options_.command.inherited, own)};
}

MachineWatch::Hooks Agent::machine_hooks() {
  return {[this](const std::string& why) {
            if (contact_.signal() != 0) return;
            reporter_.probe_noticed(why);
            dispatch(Signalled{SIGTERM});
          },
          [this] { on_health(); }, [this](const std::string& line) { pipes_.print("ddprun: " + line + ".\n"); },
          [this] { collect_workers(); }};
}

// A node without workers tells the coordinator; one that runs a round does so after it.
void Agent::on_health() {
  if (contact_.signal() != 0) return;  // it leaves
  if (const std::string why = machine_.unfit(); !why.empty()) {
    workers_.kill_parked();  // what they hold may be what is missing
    reporter_.unhealthy(why);
  }
  if (!supervisor_.round_with_workers() && contact_.coordination().connected()) send_ready();
}

std::string Agent::unfit() const {
  if (!held_ranks_.empty()) return reporter_.survivors(held_ranks_);
  return machine_.unfit();
}

void Agent::limit_run() {
  if (!options_.max_run) return;
  run_limit_.expires_after(*options_.max_run);
  run_limit_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    reporter_.run_is_over(*options_.max_run);
    dispatch(Signalled{SIGTERM});
  });
}

// Of silence a worker is named that has not ended, as the last writer may have.
int Agent::still_running(int local_rank) const {
  const auto& workers = workers_.records();
  const auto runs = [](const auto& entry) { return entry.second.pid != 0 && !entry.second.status; };
  if (const auto named = workers.find(local_rank); named != workers.end() && runs(*named)) return local_rank;
  const auto other = std::find_if(workers.begin(), workers.end(), runs);
  return other == workers.end() ? local_rank : other->first;
}

RoundOutput::Hooks Agent::output_hooks() {
  return {[this] { return supervisor_.running_round().has_value(); },
          [this](const OutputWatch::Finding& found) {
            reporter_.output_found(found.rule);
            dispatch(WorkerDying{seat_->round, still_running(found.local_rank), {.by_output = true}});
          },
          [this](const Metric& metric) {
            desk_.measured(metric.name, metric.last);
            job_events_.measured(metric);
          },
          [this](const LineSearch::Wanted& dropped) { reporter_.pattern_dropped(dropped.whose, dropped.pattern); }};
}

// The worker has failed, whatever the signal does to it: its timer expired.
void Agent::on_timer_expiry(int local_rank, const ExpiredTimer& timer) {
  reporter_.timer_expired(local_rank, timer);
  job_events_.timer_expired(local_rank, timer);
  dispatch(WorkerDying{seat_->round, local_rank, {.signal = timer.signal}});
}

}  // namespace ddprun::agent
