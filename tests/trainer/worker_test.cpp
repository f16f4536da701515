// The trainer's side of the worker channel, with a page of our own in the agent's place.
#include "ddprun/worker.h"

#include "agent/channel/channel_page.h"
#include "rendezvous/channel/beat_scope.h"
#include "rendezvous/store/client.h"
#include "rendezvous/store/server.h"
#include "tests/support/test.h"
#include "trainer/ddp/group/calls_in_flight.h"
#include "trainer/ddp/snapshot/save_gate.h"

namespace {

// As a launcher would have left us: the page, and who we are. A child of fork() is the worker.
class Launched {
 public:
  explicit Launched(int world_size = 1) : page_(ChannelPage::create(Clock::now())) {
    setenv(DDPRUN_CHANNEL_VARIABLE, std::to_string(page_.fd()).c_str(), 1);
    for (const char* name : {"RANK", "LOCAL_RANK"}) setenv(name, "0", 1);
    for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) setenv(name, std::to_string(world_size).c_str(), 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "1", 1);  // nobody serves there
  }
  ~Launched() {
    unsetenv(DDPRUN_CHANNEL_VARIABLE);
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
      unsetenv(name);
  }
  ChannelPage& page() { return page_; }
  Progress progress() { return page_.progress(Clock::now()); }

  // Exit code, or minus the signal, of a process that does this.
  static int in_a_process(const std::function<int()>& work) {
    std::cout.flush();
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGTERM, SIG_DFL);  // not Catch's
      int code = 99;
      try {
        code = work();
      } catch (const std::exception& error) {
        std::cerr << error.what() << "\n";
      }
      std::cout.flush();
      _exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  ChannelPage page_;
};

// A store at the address that the environment says, and the client of a rank that is only its part of the agreement.
struct Store {
  Store() { setenv("MASTER_PORT", std::to_string(server.port()).c_str(), 1); }
  const Server server{{.address = "127.0.0.1"}};
  Client other{{.host = "127.0.0.1", .port = server.port()}};
};

int as_code(Asked asked) { return static_cast<int>(asked); }

}  // namespace

TEST_CASE("without a launcher a Worker does nothing", "[worker]") {
  unsetenv("DDPRUN_CHANNEL_FD");
  CHECK(Launched::in_a_process([] {
          const Worker worker;
          struct sigaction action = {};
          sigaction(SIGTERM, nullptr, &action);
          return action.sa_handler == SIG_DFL ? 0 : 1;
        }) == 0);
  Worker worker;
  CHECK_FALSE(worker.has_launcher());
  worker.phase(Phase::training);
  CHECK(worker.step_done(1) == Asked::nothing);
  CHECK(worker.asked_between_steps() == Asked::nothing);
  worker.saved(1);
  worker.throughput(10);
  CHECK_THROWS_WITH(Worker(), "cannot make a Worker: there is one already. A process has only one.");
}

TEST_CASE("what a Worker tells is in its page", "[worker]") {
  Launched launched;
  CHECK(Launched::in_a_process([] {
          Worker worker;
          worker.phase(Phase::evaluating);
          for (std::uint64_t step = 41; step <= 43; ++step) worker.step_done(step);
          worker.saved(42);
          worker.throughput(1234.5);
          return worker.has_launcher() ? 0 : 1;
        }) == 0);
  const Progress progress = launched.progress();
  CHECK(progress.phase == DDPRUN_PHASE_EVALUATING);
  CHECK(progress.step == 43u);
  CHECK(progress.steps_done == 3);
  CHECK(progress.snapshot_step == 42u);
  CHECK(progress.samples_per_second == 1234.5);
}

TEST_CASE("alone, a Worker that is asked to save does it after the step that it is in", "[worker]") {
  Launched launched;
  launched.page().request_save_at(1000);  // what the agent of one node takes for the step
  CHECK(Launched::in_a_process([] { return as_code(Worker().step_done(7)); }) == as_code(Asked::to_save));
}

TEST_CASE("a Worker in a long phase between two steps is asked there", "[worker]") {
  Launched launched;
  CHECK(Launched::in_a_process([&] {
          Worker worker;
          if (worker.step_done(7) != Asked::nothing || worker.asked_between_steps() != Asked::nothing) return 9;
          launched.page().request_save_at(1000);
          return as_code(worker.asked_between_steps());
        }) == as_code(Asked::to_save));
  CHECK(launched.progress().steps_done == 1);
  launched.page().request_leave_without_saving();
  CHECK(Launched::in_a_process([] { return as_code(Worker().asked_between_steps()); }) == as_code(Asked::to_leave));
}

TEST_CASE("alone, a Worker that is asked for a snapshot is told once, for each request", "[worker]") {
  Launched launched;
  CHECK(Launched::in_a_process([&] {
          Worker worker;
          launched.page().request_snapshot_at(1000);
          if (worker.step_done(7) != Asked::to_snapshot || worker.step_done(8) != Asked::nothing) return 1;
          launched.page().request_snapshot_at(1000);
          if (worker.asked_between_steps() != Asked::to_snapshot) return 2;
          launched.page().request_save_at(1000);
          launched.page().request_snapshot_at(1000);  // the end counts
          return worker.step_done(9) == Asked::to_save ? 0 : 3;
        }) == 0);
}

// Two ranks with a page each, in one process: the second is only its part of the agreement.
TEST_CASE("two ranks that are asked for snapshots and then for the end agree on each of them", "[worker]") {
  Launched launched(2);
  CHECK(Launched::in_a_process([&] {
          Store store;
          Worker worker;
          std::uint64_t step = 1;
          worker.step_done(step);
          for (int number = 0; number < 3; ++number) {
            const bool last = number == 2;
            last ? launched.page().request_save_at(1) : launched.page().request_snapshot_at(1);
            const std::string prefix = "ddprun/save/1/" + std::to_string(number) + "/";
            store.other.wait({prefix + "stopping"});
            offer_stop(store.other, prefix, 1, 2, {SaveGate::position(step + 5), last});
            if (store.other.add(prefix + "knowing", 1) == 2) store.other.set(prefix + "all_know", "");
            Asked asked = Asked::nothing;
            while (asked == Asked::nothing) asked = worker.step_done(++step);
            if (asked != (last ? Asked::to_save : Asked::to_snapshot)) return 1 + number;
          }
          return 0;
        }) == 0);
}

TEST_CASE("a snapshot on which a dead rank does not agree is left out, and training goes on", "[worker][waits]") {
  Launched launched(2);
  CHECK(Launched::in_a_process([&] {
          Store store;
          Worker worker;
          worker.step_done(1);
          launched.page().request_snapshot_at(1);
          store.other.wait({"ddprun/save/1/0/stopping"});
          if (worker.step_done(2) != Asked::nothing) return 1;  // waits for the other one
          return agreed_stop(store.other, "ddprun/save/1/0/", 0s).value().at == 0 ? 0 : 2;
        }) == 0);
}

TEST_CASE("asked to leave, no rank asks the others", "[worker]") {
  Launched launched(2);
  launched.page().request_leave_without_saving();
  CHECK(Launched::in_a_process([] { return as_code(Worker().step_done(7)); }) == as_code(Asked::to_leave));
}

TEST_CASE("SIGTERM to a Worker is a notice of preemption, ends nobody who is asked to save, and who is asked to leave",
          "[worker]") {
  Launched launched;
  const auto step_after_sigterm = [] {
    Worker worker;
    raise(SIGTERM);
    return as_code(worker.step_done(1));
  };
  CHECK(Launched::in_a_process(step_after_sigterm) == as_code(Asked::nothing));
  CHECK(launched.page().new_notice(Clock::now()) == SIGTERM);
  setenv("DDPRUN_PREEMPT_SIGNALS", "15,10", 1);
  CHECK(Launched::in_a_process([] {
          Worker worker;
          raise(SIGUSR1);
          return as_code(worker.step_done(1));
        }) == as_code(Asked::nothing));
  CHECK(launched.page().new_notice(Clock::now()) == SIGUSR1);
  unsetenv("DDPRUN_PREEMPT_SIGNALS");
  launched.page().request_save_at(1);
  CHECK(Launched::in_a_process(step_after_sigterm) == as_code(Asked::to_save));
  launched.page().request_leave_without_saving();
  CHECK(Launched::in_a_process(step_after_sigterm) == -SIGTERM);
  launched.page().request_save_at(1);
  CHECK(Launched::in_a_process([] {
          { Worker worker; }
          raise(SIGTERM);  // nobody is there to obey any more
          return 0;
        }) == -SIGTERM);
}

TEST_CASE("a program's own handler of SIGTERM stays", "[worker]") {
  Launched launched;
  CHECK(Launched::in_a_process([] {
          static volatile std::sig_atomic_t sigterm_received = 0;
          std::signal(SIGTERM, [](int) { sigterm_received = 1; });
          Worker worker;
          raise(SIGTERM);
          return sigterm_received ? 0 : 1;
        }) == 0);
}

TEST_CASE("a Worker whose peers cannot be asked says so", "[worker][waits]") {
  Launched launched(2);
  launched.page().request_save_at(1);
  CHECK(Launched::in_a_process([] {
          Worker worker;
          try {
            for (std::uint64_t step = 1; worker.step_done(step) == Asked::nothing;) ++step;
          } catch (const std::exception& error) {
            return std::string(error.what()).find("cannot save before the job stops: ") == 0 ? 0 : 1;
          }
          return 2;
        }) == 0);
}

TEST_CASE("a Worker that is done does not wait for peers that are gone", "[worker]") {
  Launched launched(2);
  CHECK(Launched::in_a_process([&] {
          Store store;  // in here: a process with threads must not fork
          auto worker = std::make_unique<Worker>();
          worker->step_done(1);
          launched.page().request_save_at(1);
          store.other.wait({"ddprun/save/1/0/stopping"});  // it has asked the other one
          const auto began = Clock::now();
          worker.reset();
          return Clock::now() - began < 5s ? 0 : 1;  // less than the limit of the agreement
        }) == 0);
}

TEST_CASE("a step costs a Worker less than 100 ns", "[worker]") {
  Launched launched(2);
  CHECK(Launched::in_a_process([] {
          constexpr std::uint64_t kSteps = 200'000;
          Worker worker;
          double best = 1e9;
          for (std::uint64_t round = 0; round < 20; ++round) {  // the machine has other work, too
            const auto began = Clock::now();
            for (std::uint64_t step = 1; step <= kSteps; ++step)
              if (worker.step_done(round * kSteps + step) != Asked::nothing) return 1;
            const std::chrono::duration<double, std::nano> took = Clock::now() - began;
            best = std::min(best, took.count() / kSteps);
          }
          std::cout << "one step_done() takes " << best << " ns\n";
#ifdef NDEBUG
          return best < 100 ? 0 : 2;
#else
          return 0;
#endif
        }) == 0);
}

TEST_CASE("the calls of a worker that stays are ended from another thread when it is asked to leave", "[worker]") {
  setenv(DDPRUN_IN_PROCESS_VARIABLE, "1", 1);
  for (const bool stays : {true, false}) {
    Launched launched(2);
    const int ended = Launched::in_a_process([&] {
      static std::atomic<int> ends{0};
      abort_calls_in_flight = [] { ++ends; };
      Worker worker;
      if (stays && !worker.stay_in_process()) return 90;
      launched.page().request_leave_without_saving();
      // The innocent one is looked at for as long as its thread needs for a look.
      const TimePoint end = Clock::now() + (stays ? 20s : 150ms);
      while (ends == 0 && Clock::now() < end) std::this_thread::sleep_for(1ms);
      return ends.load();
    });
    CHECK(ended == (stays ? 1 : 0));
  }
  unsetenv(DDPRUN_IN_PROCESS_VARIABLE);
}

TEST_CASE("a wait in a backward pass is reported by the GPU's thread, for the training thread", "[worker]") {
  Launched launched;
  const int seen = Launched::in_a_process([&] {
    Worker worker;
    worker.phase(Phase::training);
    int waits = 0;
    std::thread([&] {
      for (const bool of_training : {true, false}) {
        const auto wait = WaitScope::in_backward("sync_bn", of_training);
        waits = 2 * waits + (ddprun_channel_current_beat() == DDPRUN_BEAT_WAIT);
      }
    }).join();
    return 4 * waits + (ddprun_channel_current_beat() == DDPRUN_BEAT_COMPUTE);
  });
  CHECK(seen == 4 * 2 + 1);
}
