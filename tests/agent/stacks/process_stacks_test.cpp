#include "agent/stacks/process_stacks.h"

#include "agent/stacks/function_name.h"
#include "agent/stacks/memory_map.h"
#include "agent/stacks/stack_unwinder.h"
#include "agent/stacks/trace_refusal.h"
#include "tests/support/test.h"

TEST_CASE("the text of a process's stacks has every thread, and what is missing", "[stacks]") {
  ProcessStacks stacks{.pid = 40, .longest_pause = std::chrono::microseconds(125)};
  stacks.threads.push_back({40,
                            "train",
                            'S',
                            "futex_do_wait",
                            true,
                            {{"__futex_wait", "/lib/libc.so.6", 0x7f0000085f16, 0x85f16}, {"", "", 0x1234}}});
  stacks.threads.push_back({41, "data\x1b[2J", 'D', "", false, {}, "it cannot be stopped: in state D"});
  stacks.python_missing = "neither py-spy nor pystack was found";
  CHECK(to_text(stacks) ==
        "process 40, its threads stopped for at most 0.12 ms each\n"
        "\n"
        "thread 40 \"train\" (main), state S in futex_do_wait\n"
        "  #0  0x00007f0000085f16 __futex_wait (libc.so.6+0x85f16)\n"
        "  #1  0x0000000000001234 ??\n"
        "\n"
        "thread 41 \"data\\x1b[2J\", state D\n"
        "  it cannot be stopped: in state D\n"
        "\n"
        "no Python frames: neither py-spy nor pystack was found\n");
}

TEST_CASE("the text of a process that could not be traced says why, and has Python's text", "[stacks]") {
  const ProcessStacks stacks{
      .pid = 7, .python = "Thread 7 (idle): \"MainThread\"\n    f (a.py:1)", .missing = "why not"};
  CHECK(to_text(stacks) == "process 7\nwhy not\n\nPython:\nThread 7 (idle): \"MainThread\"\n    f (a.py:1)\n");
}

TEST_CASE("a memory map is read, and a stack belongs to the mapping above its lowest address", "[stacks]") {
  const auto map = parse_memory_map(
      "00400000-0041f000 r--p 00000000 fe:00 7345                               /usr/bin/python3.11\n"
      "7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n"
      "7ffd1000-7ffd3000 rw-p 00000000 00:00 0                          [stack]\n"
      "not a mapping\n");
  REQUIRE(map.size() == 3);
  CHECK(map[0].begin == 0x400000);
  CHECK(map[0].end == 0x41f000);
  CHECK(map[0].path == "/usr/bin/python3.11");
  CHECK(map[1].path.empty());
  CHECK(map[2].path == "[stack]");
  const std::vector<Mapping> in_order{{10, 20}, {30, 40}};
  CHECK(mapping_from(in_order, 10) == &in_order[0]);
  CHECK(mapping_from(in_order, 20) == &in_order[1]);
  CHECK(mapping_from(in_order, 39) == &in_order[1]);
  CHECK(mapping_from(in_order, 40) == nullptr);
  CHECK_FALSE(memory_map(getpid()).empty());
}

TEST_CASE("without the module or its libraries a sentence says what to install", "[stacks]") {
  CHECK(unwinder_missing("/opt/lib/ddprun/libddprun_stacks.so: cannot open shared object file", false) ==
        "no native frames: ddprun was built without libdw; install its headers (Debian: libdw-dev) and build it again");
  CHECK(unwinder_missing("libdw.so.1: cannot open shared object file", true) ==
        "no native frames: libdw.so.1: cannot open shared object file; install elfutils' libraries (Debian: libdw1)");
  CHECK(unwinder_missing("/opt/lib/ddprun/libddprun_stacks.so: cannot open shared object file", true) ==
        "no native frames: /opt/lib/ddprun/libddprun_stacks.so: cannot open shared object file; install ddprun with "
        "its lib folder");
}

TEST_CASE("a symbol becomes the name that people write", "[stacks]") {
  CHECK(function_name("_ZN4c10d4Work4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE") == "c10d::Work::wait");
  CHECK(function_name("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE") == "std::condition_variable::wait");
  CHECK(function_name("_ZN4gloo9transport3tcp4Loop3runEv") == "gloo::transport::tcp::Loop::run");
  CHECK(function_name("pthread_cond_wait@@GLIBC_2.3.2") == "pthread_cond_wait");
  CHECK(function_name("_PyEval_EvalFrameDefault") == "_PyEval_EvalFrameDefault");
  CHECK(function_name("gomp_barrier_wait_end.part.0") == "gomp_barrier_wait_end");
  CHECK(function_name("_ZN4work4stepEv.constprop.0.isra.0") == "work::step");
  CHECK(function_name("_ZN4work4stepEv.cold") == "work::step");
}

TEST_CASE("a demangled name loses return type, arguments and template arguments", "[stacks]") {
  CHECK(shortened("main") == "main");
  CHECK(shortened("void at::native::copy<float, at::Tensor (*)(int)>(at::Tensor const&, bool) const") ==
        "at::native::copy");
  CHECK(shortened("std::vector<int, std::allocator<int> >::push_back(int const&)") == "std::vector::push_back");
  CHECK(shortened("gloo::(anonymous namespace)::allreduce(gloo::detail::AllreduceOptionsImpl const&)") ==
        "gloo::(anonymous namespace)::allreduce");
  CHECK(shortened("(anonymous namespace)::run()") == "(anonymous namespace)::run");
  CHECK(shortened("std::__cxx11::basic_string<char>::append[abi:cxx11](char const*)") ==
        "std::__cxx11::basic_string::append");
  CHECK(shortened("train(int)::{lambda(int, std::vector<int>)#2}::operator()(int, std::vector<int>) const") ==
        "train::{lambda}::operator()");
  CHECK(shortened("Loop::run() const::{lambda()#1}::operator()() const") == "Loop::run::{lambda}::operator()");
  CHECK(shortened("main::$_0::operator()() const") == "main::$_0::operator()");
  CHECK(shortened("decltype (f(1)) call<int>(int)") == "call");
}

TEST_CASE("operators keep their names", "[stacks]") {
  CHECK(shortened("operator new(unsigned long)") == "operator new");
  CHECK(shortened("Matrix::operator()(int, int)") == "Matrix::operator()");
  CHECK(shortened("bool std::operator< <char>(std::string const&, char const*)") == "std::operator<");
  CHECK(shortened("std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char)") == "std::operator<<");
  CHECK(shortened("Pointer<int>::operator->() const") == "Pointer::operator->");
  CHECK(shortened("Value::operator unsigned long() const") == "Value::operator unsigned long");
  CHECK(shortened("cooperator::run(int)") == "cooperator::run");
}

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
