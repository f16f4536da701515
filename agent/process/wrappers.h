// Programs that start another one, which does the work: shells, and such as `time`.
#pragma once
#include <sys/types.h>

#include <set>
#include <vector>

namespace ddprun::agent {

// Who is asked to end first: the rank process, and what a shell or wrapper has started that is the rank process; that
// process alone; its whole group. Whoever is left when the rank process has ended is asked then.
enum class StopScope { automatic, rank, group };

// What a process has started if it is such a program, and so on below it, parents first. It is known by the file it
// executes: a script by its shell. Below other programs nobody is named: their children are theirs, as a data loader's.
// Nor is who ends with its input.
struct BelowWrapper {
  pid_t pid, parent;
  bool passes_on;  // its signals to another one that is named
};
std::vector<BelowWrapper> below_wrapper(pid_t pid);
// Sends the signal to those that still have that parent and are not in `group`, which has got it, and returns them.
// Who passes signals on is left out, as those below it would get two.
std::set<pid_t> signal_below(const std::vector<BelowWrapper>& all, int signal, pid_t group);

// It passes a signal on to what it has started, as `timeout` does.
bool passes_signals_on(pid_t pid);
// It reads what another one prints, as `tee` does: it ends by itself after that one, which may print while it saves.
bool ends_with_its_input(pid_t pid);

}  // namespace ddprun::agent
