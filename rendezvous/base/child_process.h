// Starts, awaits and signals children of this process, each by a descriptor that becomes readable when the child has
// ended: a pidfd, which names no later process with the same pid.
//
// Linux before 5.4 has no pidfds, or too little of them, and some containers forbid them. There the descriptor is the
// end of a pipe into which a thread writes once it has seen the child's end, and the child is signalled and awaited by
// its pid, which is its own until it is reaped. So both are needed, and are passed together.
#pragma once
#include <sys/types.h>
#include <sys/wait.h>

#include <csignal>

#include "rendezvous/base/fd.h"

namespace ddprun {

struct ChildProcess {
  pid_t pid = 0;
  int fd = -1;  // its descriptor, as below
};

// Whether this kernel has all that is needed of pidfds. It is asked once.
bool has_pidfds();

// Like vfork(), but the child runs `function` on a stack of its own, whose end is given, until it calls exec() or ends.
// It shares our memory meanwhile (not under an emulator). Block all signals around it: their handlers would run there.
// `fd`: the child's descriptor; it stays empty where only child_descriptor() makes one. -1: errno tells why.
pid_t clone_child(int (*function)(void*), void* stack_end, void* argument, Fd& fd);

// Of a child that is not reaped yet. Empty: errno tells why.
Fd child_descriptor(pid_t pid);

// waitid(2) for this child; 0, or -1 and errno. ECHILD: somebody has reaped it.
int wait_child(const ChildProcess& child, siginfo_t& info, int options);

// False: it was reaped, or may not be signalled.
bool signal_child(const ChildProcess& child, int signal);

// What child_descriptor() does on a kernel without pidfds.
Fd descriptor_by_thread(pid_t pid);

// For any process, with pidfds only. Empty, false: errno tells why.
Fd open_pidfd(pid_t pid);
bool signal_by_pidfd(int pidfd, int signal);

}  // namespace ddprun
