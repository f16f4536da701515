// What happens to a node's supervisor and what it orders: two variants, with a text form for logs and transcripts.
#pragma once
#include <string>
#include <variant>

#include "rendezvous/round.h"

namespace ddprun {

// Events, in the order in which they happened.
struct RoundFormed {  // by the coordinator: start your part of it
  Round round;
};
struct WorkerStarted {  // exec'd
  int round = 0;
  int local_rank = 0;
};
struct WorkerExited {  // reaped, or never started (status.start_error)
  int round = 0;
  int local_rank = 0;
  ExitStatus status;
};
struct RoundEnded {  // by the coordinator: stop, another round follows
  int round = 0;
};
struct JobEnded {  // by the coordinator: stop, nothing follows
  Outcome outcome;
};
struct Signalled {  // somebody wants ddprun to end
  int signal = 0;
};
struct Tick {};  // next_deadline() has come
using Event = std::variant<RoundFormed, WorkerStarted, WorkerExited, RoundEnded, JobEnded, Signalled, Tick>;

// Actions, to be carried out in order.
struct StartWorkers {
  Round round;
};
struct SignalWorkers {  // every worker that still runs
  int signal = 0;
};
struct SweepLeftovers {  // SIGKILL whatever descends from the round's workers, all of which have ended
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
  ExitStatus status;
};
struct ReportInterrupted {
  int signal = 0;
};
struct Rejoin {};  // tell the coordinator that this node is ready for a round
struct Finish {
  Outcome outcome;
};
using Action = std::variant<StartWorkers, SignalWorkers, SweepLeftovers, ReportRunning, ReportDone, ReportFailure,
                            ReportInterrupted, Rejoin, Finish>;

// "worker-exited round=1 local_rank=2 signal=SIGSEGV"
std::string to_string(const Event& event);
std::string to_string(const Action& action);
std::string to_string(const ExitStatus& status);

}  // namespace ddprun
