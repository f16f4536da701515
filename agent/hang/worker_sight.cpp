#include "agent/hang/worker_sight.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "agent/process/process_state.h"
#include "agent/process/process_table.h"

namespace ddprun::agent {
namespace {

using rendezvous::Activity;

// A wait of a save or an evaluation is a wait: another rank's save has its own limit.
Activity activity_in(const Progress& progress) {
  const ddprun_beat beat = progress.beat ? progress.beat->kind : DDPRUN_BEAT_NONE;
  switch (progress.phase) {
    case DDPRUN_PHASE_SAVING:
      return beat == DDPRUN_BEAT_WAIT ? Activity::wait : Activity::save;
    case DDPRUN_PHASE_EVALUATING:
      return beat == DDPRUN_BEAT_WAIT ? Activity::wait : Activity::evaluate;
    case DDPRUN_PHASE_FINISHING:
      return Activity::end;
    case DDPRUN_PHASE_LOADING:
    case DDPRUN_PHASE_JOINING:
      return Activity::start;
    case DDPRUN_PHASE_UNKNOWN:
    case DDPRUN_PHASE_TRAINING:
      break;
  }
  if (progress.steps_done == 0) return Activity::start;
  if (beat == DDPRUN_BEAT_LOAD) return Activity::load;
  return beat == DDPRUN_BEAT_WAIT ? Activity::wait : Activity::compute;
}

// While stacks are taken: by a thread of ours, or by py-spy.
bool is_ours(pid_t tracer) {
  const auto stat = task_stat(tracer);
  return std::filesystem::exists("/proc/self/task/" + std::to_string(tracer)) || (stat && stat->parent == getpid());
}

}  // namespace

WorkerSight sight_of(const Progress& progress) {
  return {.activity = activity_in(progress),
          .collective = progress.beat ? progress.beat->collective : "",
          .beats = progress.beat && (progress.beat->waits > 0 || progress.beat->load.count() > 0),
          .inferred = progress.inferred,
          .only_seen = progress.only_seen,
          .step = progress.step,
          .steps_done = progress.steps_done,
          .in_steps = progress.beat ? progress.beat->load + progress.beat->compute + progress.beat->wait : Duration(),
          .at = progress.at};
}

bool is_traced(pid_t worker) {
  const pid_t tracer = tracer_of(table_entry(worker));
  return tracer != 0 && !is_ours(tracer);
}

void add_process_state(pid_t worker, rendezvous::Standing& standing) {
  const ProcessState state = process_state(worker);
  standing.traced = is_traced(worker);
  standing.paused |= standing.traced && state.letter == 't';
  standing.stopped = state.letter == 'T';
  if (state.letter == 'D') standing.held = state.where.empty() ? "a system call" : state.where;
}

}  // namespace ddprun::agent
