// hang_worker STEPS [FAULT RANK STEP [FILE]]: a training loop without LibTorch, with beats. Each step loads, computes
// and waits for all ranks of the job in "grads"; every tenth one also in "metrics". In the job's first round the rank
// RANK has the fault at that step, and writes "fault" first.
//
// Faults: loop, untold-loop (no rank reports its collectives), time-out (a loop; the others save, and end by SIGALRM
// after 8 s), upload (in every round: 5 s that nothing tells), deadlock, stop, skip, load, disk (reads stuck/file),
// slow-save (3.5 s, told). From that step on: slow-compute (three times as long), slow-load, quota: all ranks compute
// for 60 ms instead of sleeping, and this one in the control group of FILE; it writes when each of its steps began.
// With OUTLOOK in the environment it reports its number of steps and a loss; with INFERRED its phases count as
// inferred.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>

#include "rendezvous/channel/worker_channel.h"
#include "tests/e2e/faults.h"
#include "tests/e2e/file_collectives.h"

namespace {

using namespace ddprun::test;
using namespace std::chrono_literals;

constexpr unsigned kTimeOut = 8;  // seconds

__attribute__((noinline)) void await_batch() {
  for (;;) pause();
}

__attribute__((noinline)) void upload() {
  for (int i = 0; i < 5; ++i) sleep(1);
}

struct Fault {
  std::string kind;
  int rank = -1, step = 0;
  std::string file = {};

  bool is_on(const std::string& what, int at) const {
    return kind == what && at >= step && environment_number("RANK") == rank &&
           (what == "upload" || environment_number("DDPRUN_ROUND") == 1);
  }
  bool is_due(const std::string& what, int at) const { return at == step && is_on(what, at); }
};

// Where other work would leave no more of a CPU than the quota.
void go_before_others() {
  std::ofstream("/proc/self/autogroup") << -15 << std::flush;
  if (nice(-15) == -1) std::fprintf(stderr, "not root: as nice as the others\n");
}

// Until this thread has had so much time of a CPU.
void compute(std::chrono::milliseconds time) {
  const auto used = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  for (const auto end = used() + time; used() < end;) continue;
}

void tell_step(int step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::printf("step %d at %lld\n", step,
              static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()));
  std::fflush(stdout);
}

void have(const Fault& fault, int step) {
  if (fault.is_due("loop", step) || fault.is_due("untold-loop", step)) tell_fault(), spin_forever();
  if (fault.is_due("time-out", step)) tell_fault(), spin_forever();
  if (fault.is_due("upload", step)) tell_fault(), upload();
  if (fault.kind == "time-out" && fault.step == step && environment_number("DDPRUN_ROUND") == 1) {
    alarm(kTimeOut);
    ddprun_channel_phase(DDPRUN_PHASE_SAVING);
    pause();
  }
  if (fault.is_due("deadlock", step)) tell_fault(), lock_twice();
  if (fault.is_due("stop", step)) tell_fault(), raise(SIGSTOP);
  if (fault.is_due("disk", step)) tell_fault(), read_stuck_file();
  if (fault.is_due("slow-compute", step) || fault.is_due("slow-load", step)) tell_fault();
  if (fault.is_due("quota", step)) tell_fault(), std::ofstream(fault.file) << getpid() << std::flush;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = std::atoi(argv[1]);
  const Fault fault =
      argc > 4 ? Fault{argv[2], std::atoi(argv[3]), std::atoi(argv[4]), argc > 5 ? argv[5] : ""} : Fault{};
  ddprun_channel_attach();
  ddprun_channel_handle_signals();
  if (std::getenv("INFERRED") && ddprun_channel_page_) ddprun_channel_page_->inferred = 1;
  FileCollectives collectives(fault.kind != "untold-loop");
  if (std::getenv("OUTLOOK"))
    ddprun_channel_total_steps(static_cast<std::uint64_t>(steps)), ddprun_channel_loss(1, 0.5);
  ddprun_channel_phase(DDPRUN_PHASE_TRAINING);
  if (fault.kind == "quota") go_before_others();
  for (int step = 1; step <= steps; ++step) {
    if (fault.is_on("quota", step)) tell_step(step);
    ddprun_channel_beat(DDPRUN_BEAT_LOAD);
    if (fault.is_due("load", step)) tell_fault(), await_batch();
    std::this_thread::sleep_for(fault.is_on("slow-load", step) ? 10ms : 1ms);
    ddprun_channel_beat(DDPRUN_BEAT_COMPUTE);
    if (fault.kind == "quota")
      compute(60ms);
    else
      std::this_thread::sleep_for(fault.is_on("slow-compute", step) ? 15ms : 5ms);
    have(fault, step);
    collectives.wait("grads");
    if (step % 10 == 0) {
      if (fault.is_due("skip", step))
        tell_fault(), collectives.skip();
      else
        collectives.wait("metrics");
    }
    if (fault.is_due("slow-save", step)) {
      tell_fault();
      ddprun_channel_phase(DDPRUN_PHASE_SAVING);
      std::this_thread::sleep_for(3500ms);
      ddprun_channel_phase(DDPRUN_PHASE_TRAINING);
    }
    ddprun_channel_step(static_cast<uint64_t>(step));
    const struct ddprun_request request = ddprun_channel_request();
    if (request.kind == DDPRUN_REQUEST_SNAPSHOT && static_cast<uint64_t>(step) >= request.step)
      ddprun_channel_snapshot(static_cast<uint64_t>(step));
    if (request.kind == DDPRUN_REQUEST_SAVE || request.kind == DDPRUN_REQUEST_LEAVE) return 0;
  }
  ddprun_channel_phase(DDPRUN_PHASE_FINISHING);
  std::printf("done in round %d\n", environment_number("DDPRUN_ROUND"));
}
