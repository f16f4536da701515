// What happens to a node's supervisor and what it orders: two variants, with a text form for logs and transcripts.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round.h"

namespace ddprun::agent {

// Events, in the order in which they happened.
struct RoundFormed {  // by the coordinator: this is your part of it
  rendezvous::Seat seat;
};
struct RoundStarted {  // by the coordinator: all nodes have confirmed it
  int round = 0;
};
struct WorkerStarted {  // exec'd; nothing else happens in the round before all are, or one could not be
  int round = 0;
  int local_rank = 0;
};
struct WorkerDying {  // the kernel is taking it apart and has its status; reaped it will be later
  int round = 0;
  int local_rank = 0;
  rendezvous::ExitStatus status;
};
struct WorkerExited {  // reaped, or never started (status.start_error)
  int round = 0;
  int local_rank = 0;
  rendezvous::ExitStatus status;
};
struct Swept {  // nothing is left of the round's processes
  int round = 0;
};
struct RoundEnded {  // by the coordinator: stop, another round follows
  int round = 0;
  bool planned = false;  // all ranks are well, and can save first
};
struct JobEnded {  // by the coordinator: stop, nothing follows
  rendezvous::Outcome outcome;
};
struct Isolated {};  // no contact to the coordinator for a whole lease: others may start our ranks anew
struct Signalled {   // somebody wants ddprun to end
  int signal = 0;
};
struct Tick {};  // next_deadline() has come
using Event = std::variant<RoundFormed, RoundStarted, WorkerStarted, WorkerDying, WorkerExited, Swept, RoundEnded,
                           JobEnded, Isolated, Signalled, Tick>;

// Actions, to be carried out in order.
struct ConfirmRound {  // its record is held here
  int round = 0;
};
struct StartWorkers {
  rendezvous::Seat seat;
};
struct AskToSave {  // through the worker channel: all at one step, before they leave
  int round = 0;
};
struct AskToLeave {  // through the worker channel: without saving, a rank is gone
  int round = 0;
};
struct SignalWorkers {  // every worker that still runs
  int signal = 0;
};
struct AnnounceWait {  // to people: who still runs, and for how long we wait
  std::vector<int> local_ranks;
  Duration left = {};
};
struct AnnounceHeld {  // to people: who is still there after SIGKILL, and keeps this node out of every round
  std::vector<int> local_ranks;
};
struct SweepLeftovers {  // SIGKILL whatever descends from the round's workers, until nothing is left: then say Swept
  int round = 0;
};
struct EndSweep {  // go on without its end, and tell people what is left
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
struct Rejoin {};  // tell the coordinator that this node is ready for a round
struct Finish {
  rendezvous::Outcome outcome;
};
using Action =
    std::variant<ConfirmRound, StartWorkers, AskToSave, AskToLeave, SignalWorkers, AnnounceWait, AnnounceHeld,
                 SweepLeftovers, EndSweep, ReportRunning, ReportDone, ReportFailure, ReportInterrupted, Rejoin, Finish>;

// "worker-exited round=1 local_rank=2 signal=SIGSEGV"
std::string to_string(const Event& event);
std::string to_string(const Action& action);
std::string to_string(const rendezvous::ExitStatus& status);

}  // namespace ddprun::agent
