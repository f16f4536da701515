#include "agent/exit_status.h"

#include <csignal>
#include <cstring>

namespace ddprun {

ExitStatus exit_status_of(int code, int status) {
  return code == CLD_EXITED ? ExitStatus{.code = status} : ExitStatus{.signal = status};
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

std::string in_words(const ExitStatus& status) {
  if (status.start_error) return std::string("could not be started (") + std::strerror(status.start_error) + ")";
  if (status.signal) return "was killed by " + signal_name(status.signal);
  return status.code ? "exited with code " + std::to_string(status.code) : "ended well";
}

std::string hint(const ExitStatus& status) {
  if (status.start_error == ENOEXEC) return "a script needs a first line that names its interpreter, such as #!/bin/sh";
  switch (status.signal) {
    case SIGKILL:
      return "from outside; often the kernel or the scheduler, because memory ran out";
    case SIGSEGV:
    case SIGBUS:
      return "it touched memory it must not";
    case SIGABRT:
      return "it aborted itself: an assertion, or an exception that nobody caught";
    case SIGILL:
      return "it was built for another processor";
  }
  if (status.signal == 0 && status.code == 127) return "the usual code of a shell that did not find a command";
  return {};
}

}  // namespace ddprun
