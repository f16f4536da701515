#include "agent/stacks/top_frame.h"

#include "agent/stacks/python_frames.h"
#include "tests/support/test.h"

namespace {

using Frames = std::vector<StackFrame>;

StackFrame in_libc(const std::string& function) { return {function, "/lib/x86_64-linux-gnu/libc.so.6"}; }
StackFrame in_torch(const std::string& function) { return {function, "/venv/lib/libtorch_cpu.so"}; }
StackFrame in_train(const std::string& function) { return {function, "/opt/ddprun/bin/train"}; }
StackFrame in_python(const std::string& function) { return {function, "/usr/bin/python3.11"}; }

ProcessStacks process(const Frames& main, const Frames& other = {}, const std::string& python = "") {
  ProcessStacks stacks{.pid = 50, .python = python};
  stacks.threads.push_back({.tid = 50, .main = true, .frames = main});
  stacks.threads.push_back({.tid = 51, .frames = other});
  return stacks;
}

std::string words(const ProcessStacks& stacks) {
  const auto top = top_frame(stacks);
  return top ? in_words(*top) : "none";
}

const Frames kWaitsForWork{in_libc("__futex_abstimed_wait_common"),
                           in_libc("pthread_cond_wait"),
                           {"std::condition_variable::wait", "/lib/libstdc++.so.6"},
                           in_torch("c10d::Work::wait")};

Frames operator+(Frames a, const Frames& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Frames kPython{{"pybind11::cpp_function::dispatcher", "/venv/lib/libtorch_python.so"},
                     in_python("PyObject_Vectorcall"),
                     in_python(""),
                     in_python("Py_RunMain"),
                     in_libc("__libc_start_main")};

const Frames kGlooAllreduce{
    in_libc("pthread_cond_timedwait"), in_torch("gloo::transport::tcp::UnboundBuffer::waitRecv"),
    in_torch("gloo::(anonymous namespace)::allreduce"), in_torch("c10d::AsyncAllreduceWork::allreduce"),
    in_torch("c10d::ProcessGroupGloo::runLoop")};

const std::string kPySpy =
    "Process 50: python train.py\n"
    "Python v3.11.2 (/usr/bin/python3.11)\n"
    "\n"
    "Thread 50 (idle): \"MainThread\"\n"
    "    all_reduce (/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:4181)\n"
    "    wrapper (/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py:83)\n"
    "    evaluate (/home/user/train.py:40)\n"
    "    <module> (/home/user/train.py:60)\n"
    "Thread 51 (active): \"loader\"\n"
    "    load (/home/user/data.py:7)\n";

}  // namespace

TEST_CASE("a worker's own function is told, not what it waits in", "[stacks]") {
  CHECK(words(process({in_libc("clock_nanosleep"), in_libc("nanosleep"), in_train("evaluate"), in_train("main"),
                       in_libc("__libc_start_call_main"), in_train("_start")})) == "in evaluate");
  CHECK(words(process({in_train("Model::forward"), in_train("main")})) == "in Model::forward");
  // Linked statically, all are in one module.
  CHECK(words(process({in_train("__lll_lock_wait"), in_train("pthread_mutex_lock"), in_train("std::mutex::lock"),
                       in_train("select_batch"), in_train("main")})) == "in select_batch");
  CHECK(top_frame(process({in_libc("read"), in_train("load")}))->module == "/opt/ddprun/bin/train");
}

TEST_CASE("where no function is the user's, the innermost one of a library is told", "[stacks]") {
  CHECK(words(process({in_libc("poll"), in_torch("at::native::copy_"), in_libc("clone3")})) == "in at::native::copy_");
  CHECK(words(process({in_libc("poll"), in_libc("clone3")})) == "in poll");
  CHECK(words(process({{"", "", 0x1234}})) == "in an unknown function");
  CHECK(words(process({})) == "none");
  CHECK(words({}) == "none");
}

TEST_CASE("a collective of gloo is told with who called it", "[stacks]") {
  const auto top = top_frame(process(
      kWaitsForWork + Frames{in_torch("ddprun::Collectives::all_reduce"), in_train("train_epoch"), in_train("main")},
      kGlooAllreduce));
  REQUIRE(top);
  CHECK(top->in_collective);
  CHECK(top->collective == "allreduce");
  CHECK(in_words(*top) == "in an allreduce, called by train_epoch");
  CHECK(words(process({in_libc("epoll_wait"),
                       {"gloo::transport::tcp::Pair::recv", "bin"},
                       {"gloo::barrier", "bin"},
                       {"main", "bin"}})) == "in a barrier, called by main");
  CHECK(words(process({in_libc("poll"), {"gloo::rendezvous::Context::connectFullMesh", "bin"}, {"main", "bin"}})) ==
        "in a collective, called by main");
}

TEST_CASE("collectives of c10d and NCCL are told, also those without a name", "[stacks]") {
  const auto collective = [](const Frames& frames) {
    const auto top = top_frame(process(frames + Frames{in_train("step")}));
    return top->in_collective ? top->collective : "none";
  };
  CHECK(collective({in_torch("c10d::ProcessGroup::reduce_scatter"), in_torch("c10d::ops::reduce_scatter")}) ==
        "reducescatter");
  CHECK(collective({in_torch("c10d::ProcessGroupGloo::barrier")}) == "barrier");
  CHECK(collective({in_torch("c10d::broadcast_coalesced")}) == "broadcast");
  CHECK(collective({in_torch("c10d::ProcessGroupNCCL::WorkNCCL::synchronize")}) == "collective");
  CHECK(collective({{"sched_yield", "libc.so.6"}, {"ncclAllGather", "libnccl.so.2"}}) == "allgather");
  CHECK(collective({{"ncclCommInitRankConfig", "libnccl.so.2"}}) == "collective");
  CHECK(collective({{"PMPI_Alltoall", "libmpi.so.40"}}) == "alltoall");
  // A store and the reducer wait, but not in a collective; and a name alone makes none.
  CHECK(collective({in_torch("c10d::TCPStore::wait"), in_torch("c10d::PrefixStore::get")}) == "none");
  CHECK(collective({in_torch("c10d::Reducer::prepare_for_backward")}) == "none");
  CHECK(collective({in_train("nccl_test"), in_train("barrier_of_my_own")}) == "none");
}

TEST_CASE("in a Python program the Python function is told", "[stacks]") {
  const auto top = top_frame(process(kWaitsForWork + kPython, kGlooAllreduce, kPySpy));
  REQUIRE(top);
  CHECK(top->function == "evaluate (train.py:40)");
  CHECK(top->module == "/home/user/train.py");
  CHECK(in_words(*top) == "in an allreduce, called by evaluate (train.py:40)");
  // Without native frames Python's own names tell the collective; without Python's, gloo's thread does.
  CHECK(words(process({}, {}, kPySpy)) == "in an allreduce, called by evaluate (train.py:40)");
  const std::string waits = "Thread 50 (idle): \"MainThread\"\n    step (/home/user/train.py:9)\n";
  CHECK(words(process(kWaitsForWork + kPython, kGlooAllreduce, waits)) ==
        "in an allreduce, called by step (train.py:9)");
  CHECK(words(process({in_libc("nanosleep"), in_python("_PyEval_EvalFrameDefault")}, {}, waits)) ==
        "in step (train.py:9)");
  // No Python frames: the innermost native function.
  CHECK(words(process(kWaitsForWork + kPython, kGlooAllreduce)) == "in an allreduce, called by c10d::Work::wait");
}

TEST_CASE("the text of py-spy and of pystack is read", "[stacks]") {
  const auto threads = parse_python_stacks(kPySpy);
  REQUIRE(threads.size() == 2);
  CHECK(threads[0].id == "50");
  CHECK(threads[0].name == "MainThread");
  REQUIRE(threads[0].frames.size() == 4);
  CHECK(threads[0].frames[2].function == "evaluate");
  CHECK(threads[0].frames[2].file == "/home/user/train.py");
  CHECK(threads[0].frames[2].line == 40);
  CHECK(threads[1].name == "loader");
  CHECK(words(process({}, {},
                      "Traceback for thread 50 (python) [] (most recent call last):\n"
                      "    (Python) File \"/home/user/train.py\", line 60, in <module>\n"
                      "        evaluate()\n"
                      "    (Python) File \"/home/user/train.py\", line 40, in evaluate\n"
                      "        dist.barrier()\n"
                      "    (Python) File \"/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", "
                      "line 5129, in barrier\n")) == "in a barrier, called by evaluate (train.py:40)");
}

TEST_CASE("functions of the standard library and of PyTorch are not the user's", "[stacks]") {
  CHECK(is_library({"wait", "/usr/lib/python3.11/threading.py"}));
  CHECK(is_library({"_call", "<frozen importlib._bootstrap>"}));
  CHECK(is_library({"forward", "/v/lib/python3.11/site-packages/torch/nn/modules/module.py"}));
  CHECK(is_library({"step", "/home/user/worker_channel.py"}));
  CHECK(is_library({"wait_in", "/usr/share/ddprun/python/ddprun/_pytorch.py"}));
  CHECK_FALSE(is_library({"train", "/v/lib/python3.11/site-packages/megatron/training.py"}));
  CHECK_FALSE(is_library({"train", "/home/user/train.py"}));
}
