#include "agent/stacks/trace_refusal.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/catch.h"
#include "tests/support/command.h"

using namespace ddprun::agent;
using namespace ddprun::test;
using Catch::Matchers::StartsWith;

TEST_CASE("whom the kernel lets not trace is told why, and what to do", "[stacks]") {
  CHECK(in_words({.tracer = 12, .tracer_name = "gdb", .yama_scope = 3}) ==
        "process 12 (gdb) traces it already, and only one can: end that one");
  CHECK_THAT(in_words({.yama_scope = 3, .may_trace_all = true}), StartsWith("kernel.yama.ptrace_scope is 3, which "));
  CHECK_THAT(in_words({.yama_scope = 2}),
             StartsWith("kernel.yama.ptrace_scope is 2, which allows to trace only with "));
  CHECK_THAT(in_words({.yama_scope = 1, .is_descendant = false}),
             StartsWith("kernel.yama.ptrace_scope is 1, which allows to trace only descendants: "));
  CHECK_THAT(in_words({.yama_scope = 1, .our_user = 1000, .its_user = 1001}),
             StartsWith("it runs as user 1001 and ddprun as user 1000: "));
  CHECK_THAT(in_words({.yama_scope = 0, .is_dumpable = false}), StartsWith("it is not dumpable "));
  for (const auto& other : {TraceRefusal{}, TraceRefusal{.yama_scope = 1}, TraceRefusal{.may_trace_all = true}})
    CHECK_THAT(in_words(other),
               StartsWith("a security module, a seccomp profile or a user namespace forbids ptrace: "));
}

TEST_CASE("what decides about tracing is read from the process", "[stacks]") {
  const TraceRefusal own = trace_refusal(getpid());
  CHECK(own.tracer == 0);
  CHECK(own.its_user == geteuid());
  CHECK(own.our_user == geteuid());
  CHECK(own.is_descendant);
  CHECK(own.is_dumpable);
  CHECK_FALSE(trace_refusal(getppid()).is_descendant);
}
