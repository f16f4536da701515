// How a worker ended: from the kernel's words to ours.
#pragma once
#include <string>

#include "rendezvous/round.h"

namespace ddprun {

// From waitid's siginfo: `code` is si_code (CLD_EXITED, CLD_KILLED, CLD_DUMPED), `status` is si_status.
ExitStatus exit_status_of(int code, int status);

// "was killed by SIGKILL", "exited with code 3", "could not be started (Exec format error)", "ended well".
std::string in_words(const ExitStatus& status);

// What such an end often means, or empty: "often a sign that memory ran out".
std::string hint(const ExitStatus& status);

// "SIGTERM"; "signal 42" where it has no name.
std::string signal_name(int signal);

}  // namespace ddprun
