// The faults that a user has this node's workers suffer (rendezvous/coordination/inquiry/fault.h): what is to be done
// to which process, and when it is undone. A value.
#pragma once
#include <sys/types.h>

#include <optional>
#include <vector>

#include "rendezvous/coordination/inquiry/fault.h"

namespace ddprun::agent {

class FaultTable {
 public:
  enum class Step { kill, crash, stop, go_on, limit_memory, limit_files, lift_memory, lift_files };
  struct Deed {
    Step step;
    int local_rank;
    pid_t pid;

    friend bool operator==(const Deed&, const Deed&) = default;
  };

  // A fault of a worker; not cut and preempt, which are its node's.
  std::vector<Deed> begin(const rendezvous::Fault& fault, int local_rank, pid_t pid, TimePoint now);
  // What is due now.
  std::vector<Deed> due(TimePoint now);
  // When something is due next; empty: no fault lasts.
  std::optional<TimePoint> next() const;
  // The round is over: what is left to undo.
  std::vector<Deed> end();

 private:
  struct Lasting {
    rendezvous::FaultKind kind;
    int local_rank;
    pid_t pid;
    TimePoint until, next;
    bool stopped;
  };
  static void undo(const Lasting& fault, std::vector<Deed>& deeds);

  std::vector<Lasting> lasting_;
};

}  // namespace ddprun::agent
