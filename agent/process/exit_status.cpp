#include "agent/process/exit_status.h"

#include <csignal>
#include <cstring>

#include "rendezvous/channel/worker_exit.h"

namespace ddprun::agent {
namespace {

constexpr int kShellNotRunnable = 126, kShellNotFound = 127, kShellSignal = 128;

std::string signal_hint(int signal) {
  switch (signal) {
    case SIGKILL:
      return "from outside; often the kernel or the scheduler, because memory ran out";
    case SIGTERM:
    case SIGINT:
    case SIGQUIT:
      return "somebody asked it to end: a person or a scheduler, not ddprun";
    case SIGHUP:
      return "its terminal went away, or somebody sent the signal";
    case SIGSEGV:
      return "it touched memory it must not";
    case SIGBUS:
      return "memory it had mapped is not there: often a full /dev/shm, or a file cut short";
    case SIGABRT:
      return "it aborted itself: an assertion, or an exception that nobody caught";
    case SIGILL:
      return "it met an instruction this processor does not have: built for another one?";
    case SIGFPE:
      return "it divided an integer by zero, or the like";
    case SIGTRAP:
      return "it met a breakpoint, or a check compiled into it failed";
    case SIGSYS:
      return "a filter (seccomp) forbids a system call it made";
    case SIGPIPE:
      return "it wrote to a pipe or socket that nobody reads any more";
    case SIGXCPU:
      return "it used up the CPU time it was allowed (ulimit -t)";
    case SIGXFSZ:
      return "it wrote a file larger than it was allowed (ulimit -f)";
  }
  return {};
}

std::string code_hint(int code) {
  if (code == kWorkerFinal)
    return "its work is done, but something of it could not be written; a restart would do it all again";
  if (code == kShellNotRunnable) return "the usual code of a shell that may not run a command it found";
  if (code == kShellNotFound) return "the usual code of a shell that did not find a command";
  if (const int signal = code - kShellSignal; signal > 0 && sigabbrev_np(signal))
    return "the usual code of a shell whose command was killed by " + signal_name(signal);
  return {};
}

}  // namespace

rendezvous::ExitStatus exit_status_of(int code, int status) {
  return code == CLD_EXITED ? rendezvous::ExitStatus{.code = status} : rendezvous::ExitStatus{.signal = status};
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

std::string in_words(const rendezvous::ExitStatus& status) {
  if (status.hung) return "hung after others had ended well";
  if (status.stuck) return "is stuck in the kernel, where no signal reaches it";
  if (status.start_error) return std::string("could not be started (") + std::strerror(status.start_error) + ")";
  if (status.signal) return "was killed by " + signal_name(status.signal);
  return status.code ? "exited with code " + std::to_string(status.code) : "ended well";
}

std::string hint(const rendezvous::ExitStatus& status) {
  if (status.stuck) return "it waits for a driver, or for a file server that does not answer; dmesg may name it";
  if (status.start_error || status.hung) return {};
  return status.signal ? signal_hint(status.signal) : code_hint(status.code);
}

int torchrun_code(const rendezvous::ExitStatus& status) {
  if (status.signal) return -status.signal;
  return status.start_error || status.hung || status.stuck ? 1 : status.code;
}

bool dumps_core(int signal) {
  switch (signal) {
    case SIGQUIT:
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGSEGV:
    case SIGXCPU:
    case SIGXFSZ:
    case SIGSYS:
      return true;
  }
  return false;
}

bool was_stopped(const rendezvous::ExitStatus& status) {
  return status.signal == SIGTERM || status.signal == SIGKILL || status.code == kShellSignal + SIGTERM;
}

}  // namespace ddprun::agent
