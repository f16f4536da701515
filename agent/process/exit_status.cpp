#include "agent/process/exit_status.h"

#include <array>
#include <csignal>
#include <cstring>

#include "rendezvous/channel/worker_exit.h"

namespace ddprun::agent {
namespace {

constexpr int kShellNotRunnable = 126, kShellNotFound = 127, kShellSignal = 128;

// glibc has sigabbrev_np() since 2.32, and ddprun runs with older ones.
const char* abbreviation(int signal) {
  struct Named {
    int signal;
    const char* name;
  };
  static constexpr std::array<Named, 31> kAll{{
      {SIGHUP, "HUP"},       {SIGINT, "INT"},   {SIGQUIT, "QUIT"},   {SIGILL, "ILL"},   {SIGTRAP, "TRAP"},
      {SIGABRT, "ABRT"},     {SIGBUS, "BUS"},   {SIGFPE, "FPE"},     {SIGKILL, "KILL"}, {SIGUSR1, "USR1"},
      {SIGSEGV, "SEGV"},     {SIGUSR2, "USR2"}, {SIGPIPE, "PIPE"},   {SIGALRM, "ALRM"}, {SIGTERM, "TERM"},
      {SIGSTKFLT, "STKFLT"}, {SIGCHLD, "CHLD"}, {SIGCONT, "CONT"},   {SIGSTOP, "STOP"}, {SIGTSTP, "TSTP"},
      {SIGTTIN, "TTIN"},     {SIGTTOU, "TTOU"}, {SIGURG, "URG"},     {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"},
      {SIGVTALRM, "VTALRM"}, {SIGPROF, "PROF"}, {SIGWINCH, "WINCH"}, {SIGPOLL, "POLL"}, {SIGPWR, "PWR"},
      {SIGSYS, "SYS"},
  }};
  for (const Named& one : kAll)
    if (one.signal == signal) return one.name;
  return nullptr;
}

// Whoever reaps a process learns the signal, not who sent it: it may have been the process itself.
std::string signal_hint(int signal) {
  switch (signal) {
    case SIGKILL:
      return "often sent by the kernel or the scheduler because memory ran out";
    case SIGTERM:
    case SIGINT:
    case SIGQUIT:
      return "ddprun did not send it; most likely a person or a scheduler did";
    case SIGHUP:
      return "most likely its terminal was closed, or a person sent it";
    case SIGSEGV:
      return "it accessed memory that it may not";
    case SIGBUS:
      return "memory it had mapped is missing: often a full /dev/shm, or a file cut short";
    case SIGABRT:
      return "it aborted itself: an assertion, or an uncaught exception";
    case SIGILL:
      return "it met an instruction that this processor lacks: was it built for another one?";
    case SIGFPE:
      return "it divided an integer by zero, or made a similar error";
    case SIGTRAP:
      return "it hit a breakpoint, or a check compiled into it failed";
    case SIGSYS:
      return "a filter (seccomp) forbids a system call it made";
    case SIGPIPE:
      return "it wrote to a pipe or socket that has no reader any more";
    case SIGXCPU:
      return "it used up the CPU time it was allowed (ulimit -t)";
    case SIGXFSZ:
      return "it wrote a file larger than it was allowed (ulimit -f)";
  }
  return {};
}

std::string code_hint(int code) {
  if (code == kWorkerExitUnsaved)
    return "its work is done, but part of the output could not be written; a restart would repeat all of it";
  if (code == kShellNotRunnable) return "the usual code of a shell for a command that it may not run";
  if (code == kShellNotFound) return "the usual code of a shell for a command that it did not find";
  if (const int signal = code - kShellSignal; signal > 0 && abbreviation(signal))
    return "the usual code of a shell for a command killed by " + signal_name(signal);
  return {};
}

}  // namespace

rendezvous::ExitStatus exit_status_of(int code, int status) {
  return code == CLD_EXITED ? rendezvous::ExitStatus{.code = status} : rendezvous::ExitStatus{.signal = status};
}

std::string signal_name(int signal) {
  const char* name = abbreviation(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

int signal_number(const std::string& name) {
  for (int signal = 1; signal < NSIG; ++signal)
    if (const char* known = abbreviation(signal); known && (name == known || name == std::string("SIG") + known))
      return signal;
  return 0;
}

std::string in_words(const rendezvous::ExitStatus& status) {
  if (status.hung) return "hung after other workers had succeeded";
  if (status.by_output) return "was given up for its output";
  if (status.stuck) return "is stuck in the kernel, where no signal reaches it";
  if (status.start_error) return std::string("could not be started (") + std::strerror(status.start_error) + ")";
  if (status.signal) return "was killed by " + signal_name(status.signal);
  return status.code ? "exited with code " + std::to_string(status.code) : "succeeded";
}

std::string in_words(const rendezvous::Failure& failure) {
  return failure.status.hung && !failure.how.empty() ? "hung" : in_words(failure.status);
}

std::string hint(const rendezvous::ExitStatus& status) {
  if (status.stuck) return "it waits for a driver, or for a file server that does not answer; dmesg may name it";
  if (status.start_error || status.hung || status.by_output) return {};
  return status.signal ? signal_hint(status.signal) : code_hint(status.code);
}

int torchrun_code(const rendezvous::ExitStatus& status) {
  if (status.signal) return -status.signal;
  return status.start_error || status.hung || status.stuck || status.by_output ? 1 : status.code;
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
  return status.signal == SIGTERM || status.signal == SIGINT || status.signal == SIGKILL ||
         status.code == kShellSignal + SIGTERM || status.code == kShellSignal + SIGINT;
}

}  // namespace ddprun::agent
