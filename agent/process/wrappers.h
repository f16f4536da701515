// Programs that start another one, which does the work: shells, and such as `time`.
#pragma once
#include <sys/types.h>

#include <set>

namespace ddprun::agent {

// Who is asked to end first: the rank process, and what a shell or wrapper has started that is the rank process; that
// process alone; its whole group. Whoever is left when the rank process has ended is asked then.
enum class StopScope { automatic, rank, group };

// Sends the signal to what the process has started if it is such a program, and so on below it, and returns whom. It is
// known by the file it executes: a script by its shell. Below other programs nobody is asked: their children are
// theirs, as a data loader's.
std::set<pid_t> ask_below_wrapper(pid_t pid, int signal);

}  // namespace ddprun::agent
