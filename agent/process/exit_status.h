// How a worker ended: the kernel's status as a value and in words.
#pragma once
#include <string>

#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

// From waitid's siginfo: `code` is si_code (CLD_EXITED, CLD_KILLED, CLD_DUMPED), `status` is si_status.
rendezvous::ExitStatus exit_status_of(int code, int status);

// "was killed by SIGKILL", "exited with code 3", "could not be started (Exec format error)", "ended well".
std::string in_words(const rendezvous::ExitStatus& status);
// Of a hang that was found only "hung": what it did is in another place.
std::string in_words(const rendezvous::Failure& failure);

// What such an end often means: "it accessed memory that it may not"; or empty.
std::string hint(const rendezvous::ExitStatus& status);

// As torchrun writes it: the exit code, -N if signal N killed the worker, 1 if it could not be started.
int torchrun_code(const rendezvous::ExitStatus& status);

// Whether the kernel may write a core file on a death by this signal.
bool dumps_core(int signal);

// Whether a worker that was asked to stop did so: by SIGTERM or SIGINT, the SIGKILL after it, or a shell's exit code
// for the first two.
bool was_stopped(const rendezvous::ExitStatus& status);

// "SIGTERM"; "signal 42" where it has no name.
std::string signal_name(int signal);
// Of "SIGTERM" or "TERM"; 0: no signal has that name.
int signal_number(const std::string& name);

}  // namespace ddprun::agent
