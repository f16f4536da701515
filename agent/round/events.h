// The supervisor's events and actions: two variants, with a text form for logs and transcripts.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

// Events, in the order in which they happened.
struct RoundFormed {  // by the coordinator: this node's part of it
  rendezvous::Seat seat;
};
struct RoundStarted {  // by the coordinator: all nodes have confirmed it
  int round = 0;
};
struct WorkerStarted {  // exec'd, or forked; once the round is being stopped no other is started
  int round = 0;
  int local_rank = 0;
};
struct WorkerDying {  // the kernel is ending it and its status is known; it is reaped later
  int round = 0;
  int local_rank = 0;
  rendezvous::ExitStatus status;
};
struct WorkerExited {  // reaped, or never started (status.start_error)
  int round = 0;
  int local_rank = 0;
  rendezvous::ExitStatus status;
};
struct Swept {  // no process of the round is left
  int round = 0;
};
struct RoundEnded {  // by the coordinator: stop, another round follows
  int round = 0;
  bool planned = false;  // all ranks are well, and can save first
};
struct JobEnded {  // by the coordinator: stop, no round follows
  rendezvous::Outcome outcome;
};
struct Isolated {};  // no contact to the coordinator for a whole lease: others may start our ranks again
struct Signalled {   // a signal or the limit max_run asks ddprun to end
  int signal = 0;
  bool delivered = false;  // the terminal has sent it to the only worker as well
};
struct Tick {};  // next_deadline() has come
using Event = std::variant<RoundFormed, RoundStarted, WorkerStarted, WorkerDying, WorkerExited, Swept, RoundEnded,
                           JobEnded, Isolated, Signalled, Tick>;

// Actions, to be carried out in order.
struct ConfirmRound {  // this node holds its record
  int round = 0;
};
struct StartWorkers {
  rendezvous::Seat seat;
};
struct AskToSave {  // through the worker channel: all ranks at the same step, before they leave
  int round = 0;
};
struct AskToLeave {  // through the worker channel: without saving, as a rank is gone
  int round = 0;
};
struct SignalWorkers {  // every worker that still runs
  int signal = 0;
  bool delivered = false;  // they have got it
};
struct AnnounceWait {  // printed: which workers still run, and for how long we wait
  std::vector<int> local_ranks;
  Duration left = {};
};
struct AnnounceHeld {  // printed: which workers SIGKILL has not ended; they keep this node out of every round
  std::vector<int> local_ranks;
};
struct ReportHeld {  // the others need not wait for these workers: SIGKILL lets them execute nothing any more
  std::vector<int> local_ranks;
};
struct SweepLeftovers {  // SIGKILL all descendants of the round's workers until none is left; then send Swept
  int round = 0;
};
struct EndSweep {  // go on before the sweep has ended, and print what is left
  int round = 0;
};
struct ReportRunning {
  int round = 0;
};
struct ReportDone {
  int round = 0;
};
struct ReportFailure {
  int round = 0;
  int local_rank = 0;
  rendezvous::ExitStatus status;
};
struct ReportInterrupted {
  int signal = 0;
};
struct AnnouncePreempted {  // printed: by its exit code this worker was preempted, and has saved
  int round = 0;
  int local_rank = 0;
  int code = 0;
};
struct Rejoin {};  // tell the coordinator that this node is ready for a round
struct Finish {
  rendezvous::Outcome outcome;
  // If the job was interrupted: local ranks whose exit codes say that they lose nothing.
  std::vector<int> saved = {};
};
using Action = std::variant<ConfirmRound, StartWorkers, AskToSave, AskToLeave, SignalWorkers, AnnounceWait,
                            AnnounceHeld, ReportHeld, SweepLeftovers, EndSweep, ReportRunning, ReportDone,
                            ReportFailure, ReportInterrupted, AnnouncePreempted, Rejoin, Finish>;

// "worker-exited round=1 local_rank=2 signal=SIGSEGV"
std::string to_string(const Event& event);
std::string to_string(const Action& action);
std::string to_string(const rendezvous::ExitStatus& status);

}  // namespace ddprun::agent
