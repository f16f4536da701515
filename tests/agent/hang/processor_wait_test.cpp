#include "agent/hang/processor_wait.h"

#include <sched.h>

#include "tests/support/test.h"

namespace {

// A child whose threads share one processor and never rest.
class Crowd {
 public:
  explicit Crowd(int threads) : pid_(fork()) {
    if (pid_ != 0) return;
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    const auto spin = [] {
      for (volatile unsigned turns = 0;; turns = turns + 1) continue;
    };
    for (int i = 1; i < threads; ++i) std::thread(spin).detach();
    spin();
  }
  ~Crowd() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

}  // namespace

TEST_CASE("a thread that waits for a processor is seen, by the longest such wait of its process", "[hang]") {
  std::optional<Crowd> crowd(4);
  const pid_t pid = crowd->pid();
  ProcessorWait waits;
  CHECK(waits.since_last_look(pid) == Duration::zero());  // nothing to compare with
  Duration waited{};
  CHECK(ddprun::test::eventually([&] { return (waited += waits.since_last_look(pid)) >= 100ms; }, 60s));
  waits.forget(pid);
  CHECK(waits.since_last_look(pid) == Duration::zero());
  crowd.reset();  // a process that is gone waits for none
  CHECK(waits.since_last_look(pid) == Duration::zero());
  CHECK(waits.since_last_look(pid) == Duration::zero());
}
