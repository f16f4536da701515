// Why the kernel lets us not trace a process, from what can be read about it. Pure.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

namespace ddprun::agent {

struct TraceRefusal {
  pid_t tracer = 0;  // who traces it already; 0: nobody
  std::string tracer_name = {};
  std::optional<int> yama_scope = {};  // kernel.yama.ptrace_scope; empty: the kernel has no Yama
  bool may_trace_all = false;          // we have CAP_SYS_PTRACE
  uid_t our_user = 0, its_user = 0;
  bool is_descendant = true;  // of ours
  bool is_dumpable = true;    // prctl(PR_SET_DUMPABLE)
};

// One sentence with its remedy, as ptrace(2) and Documentation/admin-guide/LSM/Yama.rst have the rules.
std::string in_words(const TraceRefusal& refusal);

// Reads /proc about `pid`, which ptrace refused to us.
TraceRefusal trace_refusal(pid_t pid);

}  // namespace ddprun::agent
