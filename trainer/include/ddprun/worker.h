// A worker's connection to the ddprun that started it: it reports progress and receives requests.
//
//   ddprun::Worker worker;  // in the main thread, before init_process_group()
//   worker.phase(ddprun::Phase::training);
//   for (std::uint64_t step = first; step <= last; ++step) {
//     train(step);
//     const auto asked = worker.step_done(step);
//     if (asked == ddprun::Asked::to_leave) return 0;
//     if (asked == ddprun::Asked::to_save) {
//       save(step);          // may call collectives: all ranks are here
//       worker.saved(step);  // on each rank, once the snapshot is on disk
//       return 0;
//     }
//     if (asked == ddprun::Asked::to_snapshot) {  // ddprun ctl snapshot
//       save(step);
//       worker.saved(step);
//     }
//   }
//
// Before a preemption (SIGTERM to ddprun or to any rank, --preempt-signal, --max-run) and before nodes join or leave,
// all ranks are asked to save at the end of the same step: on every rank of every node the answer is to_save after that
// step, however far apart they were. They agree on the step, the current or the next one, through the launcher's store;
// each uses a thread for it, so that a rank that waits in a collective does not block it. Once all ranks have called
// saved() and exited, ddprun ends with 75.
//
// In a long phase between two steps, such as an evaluation, call asked_between_steps() now and then, for example after
// each batch: the ranks may then stop there, at the same call on every rank, and save the state after the last step. So
// each rank must call it equally often between the same steps:
//
//   for (const auto& batch : test_batches) {  // as many on every rank
//     evaluate(batch);
//     if (worker.asked_between_steps() != ddprun::Asked::nothing) ...  // as after a step; evaluate again after the
//     resume
//   }
//
// So all ranks must report the same, increasing steps, counted across epochs and restarts. step_done() costs about 40
// ns, and waits only while the ranks agree (milliseconds). If they cannot within 10 s, because one of them is dead, it
// throws one sentence. For to_snapshot it is 3 s, and then there is no snapshot and no error.
//
// SIGTERM, and each --preempt-signal: while a Worker exists and the program has no handler, the signal tells ddprun of
// a preemption, whoever sent it: all ranks are then asked to save, and the training loop has --stop-grace to leave.
// After a failure on another rank, ranks are asked to leave without saving, and SIGTERM ends the process, as by
// default; the answer to_leave means the same, and no collective may follow it. A handler of the program must not end
// the process; it calls ddprun_channel_on_signal() (worker_channel.h) for the same.
//
// While the phase is training, the library also reports what this rank does, in its beats: it computes, waits for data
// in a DataLoader, or waits for other ranks in a collective (docs/worker-channel.md). Beats are those of the thread
// that made the Worker, or of the last one that called phase() or step_done().
//
// The death of a process with a Worker is also detected at once (docs/worker-channel.md), and ddprun shows its steps as
// progress. Without ddprun, or with an older one, all members do nothing and cost a nanosecond.
//
// One at a time in a process. Only one thread may call step_done() and asked_between_steps(); any thread may call the
// other members.
#pragma once
#include <cstdint>
#include <memory>

#pragma GCC visibility push(default)
namespace ddprun {

enum class Phase {
  loading = 1,  // program, data, snapshot
  meeting,      // joining the process group
  training,
  evaluating,
  saving,
  finishing,
};

enum class Asked {
  nothing,
  to_save,      // and then to leave, with exit code 0
  to_leave,     // without saving
  to_snapshot,  // to save, and to go on; on all ranks after the same step, too
};

class Worker {
 public:
  // Construct it in the main thread; in another one only the early detection of a death is lost. Throws if one exists.
  Worker();
  ~Worker();  // no more requests; restores the handling of SIGTERM
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool has_launcher() const;
  void phase(Phase phase);
  // `step` is done. A request, once returned, is returned from then on.
  Asked step_done(std::uint64_t step);
  // The same at a further point after the last step. On every rank equally often between the same steps.
  Asked asked_between_steps();
  // Under ddprun --in-process: a program that calls this is not ended when a peer is lost, and its loop has to call
  // rejoin() instead of returning, after PeerLost and for Asked::to_leave. False: it is ended as ever.
  bool stay_in_process();
  // With no process group and no DistributedDataParallel left (abort_process_group()): waits for the next round, whose
  // place is in the environment then, for init_process_group(). Load the newest snapshot again: ranks may be a step
  // apart. False: there is no next round for this process, which has to end. ddprun may end it while it waits.
  bool rejoin();
  // A snapshot of the state after this step is complete and on disk, as far as this rank knows. `bytes`: what this rank
  // has written for it, 0 if that is not known.
  void saved(std::uint64_t step, std::uint64_t bytes = 0);
  void throughput(double samples_per_second);  // of this rank
  // What `ddprun status` and metrics show: the training loss of a step (once a second is enough), and the number of the
  // step that is to be the last one.
  void loss(std::uint64_t step, double loss);
  void total_steps(std::uint64_t steps);

 private:
  struct Channel;
  std::unique_ptr<Channel> channel_;  // null: no launcher
  bool stays_ = false;
};

}  // namespace ddprun
#pragma GCC visibility pop
