// A worker's line to the ddprun that started it: what it tells, and what it is asked to do.
//
//   ddprun::Worker worker;  // in the main thread, before the process group is made
//   worker.phase(ddprun::Phase::training);
//   for (std::uint64_t step = first; step <= last; ++step) {
//     train(step);
//     const auto asked = worker.step_done(step);
//     if (asked == ddprun::Asked::to_leave) return 0;
//     if (asked == ddprun::Asked::to_save) {
//       save(step);          // may call collectives: all ranks are here
//       worker.saved(step);  // each rank, once the snapshot is safe on disk
//       return 0;
//     }
//   }
//
// Before a preemption (SIGTERM at ddprun, --preempt-signal, --max-run) and before nodes join or leave, all ranks are
// asked to save at the end of one and the same step: the answer is to_save after that step on every rank, on every
// node, whatever the distance between them was. They agree on it through the launcher's store, by a thread of their
// own, so that a rank that waits in a collective does not hinder it: the step that they are in, or the next one. Where
// all ranks have told saved() and left, ddprun ends with 75.
//
// For that, all ranks tell the same steps, of which each is higher than the last one: they count on over epochs and
// restarts. step_done() costs some 40 ns, and waits only while the ranks agree (milliseconds). Where they cannot within
// 10 s, as one of them is dead, it throws one sentence.
//
// SIGTERM: while there is a Worker, and the program has no handler of its own, the signal ends the process at once, as
// ever, unless all ranks are asked to save: then it is ignored, and the training loop has --stop-grace to leave. A
// program that has a handler of its own must not end in it. After a failure elsewhere ranks are asked to leave without
// saving, mostly by that signal; the answer to_leave is the same, and no collective may follow it.
//
// A worker that has a Worker is also missed at once when it dies (docs/worker-channel.md), and its steps are progress
// for ddprun. Without ddprun, or with an older one, all of it does nothing and costs a nanosecond.
//
// One at a time in a process. step_done() belongs to one thread; the other members may be called by any.
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
  to_save,   // and then to leave, with exit code 0
  to_leave,  // without saving
};

class Worker {
 public:
  // In the main thread, for the early news of a death; in another one all else works. Throws where there is one.
  Worker();
  ~Worker();  // asked nothing more; SIGTERM is as it was
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool has_launcher() const;
  void phase(Phase phase);
  // `step` is done. What is asked, once asked, stays asked.
  Asked step_done(std::uint64_t step);
  // A snapshot of the state after this step is whole and on disk, as far as this rank knows.
  void saved(std::uint64_t step);
  void throughput(double samples_per_second);  // of this rank

 private:
  struct Channel;
  std::unique_ptr<Channel> channel_;  // null: no launcher
};

}  // namespace ddprun
#pragma GCC visibility pop
