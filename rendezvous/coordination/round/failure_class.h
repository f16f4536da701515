// The classes of a worker's end: one vocabulary for the report, the events, the rules and the restart ledger.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::rendezvous {

// How a worker ended. At most one field is set; all zero is success.
struct ExitStatus {
  int code = 0;
  int signal = 0;
  int start_error = 0;  // errno of the exec that failed: the worker never ran

  bool hung = false;  // given up before its end: it waited for peers that had ended well

  bool stuck = false;  // given up before its end: the kernel held it, and no signal could end it

  bool by_output = false;  // given up before its end: a rule about its output

  bool ok() const { return code == 0 && signal == 0 && start_error == 0 && !hung && !stuck && !by_output; }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

enum class FailureClass {
  clean,          // no failure
  usage,          // exit code 2 before any progress
  error,          // another exit code
  crash,          // a signal, or the exit code with which a shell reports one
  out_of_memory,  // the kernel's OOM killer, a failed allocation, or the GPU's memory
  hang,           // it waited for peers that had ended well, or its own timer expired
  start,          // it could not be exec'd; a library, module or command was missing; a port was taken
  unkillable,     // the kernel held it, and SIGKILL did not end it
  lost_node,      // its node was out of reach
  preempted,      // a preemption's signal ended it
};

struct NamedFailureClass {
  FailureClass kind;
  const char* name;
};
constexpr std::array<NamedFailureClass, 10> kFailureClasses = {{{FailureClass::clean, "clean"},
                                                                {FailureClass::usage, "usage"},
                                                                {FailureClass::error, "error"},
                                                                {FailureClass::crash, "crash"},
                                                                {FailureClass::out_of_memory, "out-of-memory"},
                                                                {FailureClass::hang, "hang"},
                                                                {FailureClass::start, "start"},
                                                                {FailureClass::unkillable, "unkillable"},
                                                                {FailureClass::lost_node, "lost-node"},
                                                                {FailureClass::preempted, "preempted"}}};

std::string name_of(FailureClass kind);
std::optional<FailureClass> failure_class(std::string_view name);

// By the exit status alone. `progressed`: the worker's round had made progress.
FailureClass class_of(const ExitStatus& status, bool progressed);

}  // namespace ddprun::rendezvous
