// Stacks of real processes, which go on afterwards as if nothing had happened.
#include "agent/stacks/take_stacks.h"

#include <sys/mman.h>

#include <asio/io_context.hpp>

#include "agent/process/process.h"
#include "agent/process/process_state.h"
#include "agent/stacks/thread_capture.h"
#include "agent/stacks/top_frame.h"
#include "tests/support/test.h"

namespace {

constexpr std::chrono::seconds kLimit{30};

void skip(const std::string& why) { WARN("skipped: " << why); }

const std::string kWorker = programs_folder() + "/stack_worker";

// A page in which a worker counts. Of no file: who writes to one on a disk may sleep uninterruptibly.
class CountPage {
 public:
  CountPage() : file_(memfd_create("count", MFD_CLOEXEC)) {
    REQUIRE(ftruncate(file_.get(), sizeof *count_) == 0);
    count_ = static_cast<const std::atomic<unsigned long>*>(
        mmap(nullptr, sizeof *count_, PROT_READ, MAP_SHARED, file_.get(), 0));
  }
  ~CountPage() { munmap(const_cast<std::atomic<unsigned long>*>(count_), sizeof *count_); }
  std::string name() const { return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file_.get()); }
  unsigned long count() const { return count_->load(); }
  bool moves() const {
    return eventually([&, before = count()] { return count() != before; }, kLimit);
  }

 private:
  const Fd file_;
  const std::atomic<unsigned long>* count_ = nullptr;
};

struct Worker : Command {
  explicit Worker(const std::string& task, const std::string& argument = "") : Command({kWorker, task, argument}) {
    wait_for_output("ready", kLimit);
  }
  bool sleeps() const { return is_in_state('S'); }
  bool is_in_state(char state) const {
    return eventually([&] { return process_state(pid()).letter == state; }, kLimit);
  }
};

ProcessStacks take(pid_t pid) { return take_stacks({pid}, kLimit, {.python = false}).at(0); }

// As they are once `enough` holds for them.
ProcessStacks take_until(pid_t pid, const std::function<bool(const ProcessStacks&)>& enough) {
  ProcessStacks stacks;
  CHECK(eventually([&] { return enough(stacks = take(pid)); }, kLimit));
  return stacks;
}

bool has_function(const ThreadStack& thread, const std::string& function) {
  return std::any_of(thread.frames.begin(), thread.frames.end(),
                     [&](const StackFrame& frame) { return frame.function == function; });
}

std::string top(const ProcessStacks& stacks) {
  INFO(to_text(stacks));
  const auto frame = top_frame(stacks);
  REQUIRE(frame);
  return frame->function;
}

}  // namespace

TEST_CASE("a sleeping process's stack goes from the kernel's door to main, and names its own function", "[stacks]") {
  const auto [task, function, caller] = GENERATE(table<std::string, std::string, std::string>(
      {{"sleep", "work::sleep_for_ever", "main"}, {"deadlock", "work::lock_twice", "work::Model::forward"}}));
  Worker worker(task);
  REQUIRE(worker.sleeps());
  const ProcessStacks stacks = take(worker.pid());
  INFO(to_text(stacks));
  CHECK(stacks.pid == worker.pid());
  CHECK(stacks.missing.empty());
  REQUIRE(stacks.threads.size() == 1);
  const ThreadStack& main = stacks.threads[0];
  CHECK(main.tid == worker.pid());
  CHECK(main.main);
  CHECK(main.name == "stack_worker");
  CHECK(main.state == 'S');
  CHECK(main.missing.empty());
  CHECK(has_function(main, function));
  CHECK(has_function(main, caller));
  CHECK(has_function(main, "main"));
  CHECK(top(stacks) == function);
  CHECK(fs::path(top_frame(stacks)->module).filename() == "stack_worker");
  CHECK(stacks.longest_pause > Duration::zero());
  CHECK_FALSE(worker.ended());
}

TEST_CASE("a process in an endless loop tells its function, and goes on counting, or stays stopped by SIGSTOP",
          "[stacks]") {
  const CountPage page;
  Worker worker("spin", page.name());
  REQUIRE(page.moves());
  for (int i = 0; i < 20; ++i) CHECK(top(take(worker.pid())) == "work::count_for_ever");
  CHECK(page.moves());
  worker.kill(SIGSTOP);
  REQUIRE(worker.is_in_state('T'));
  const unsigned long before = page.count();
  for (int i = 0; i < 20; ++i) {
    const ProcessStacks stacks = take(worker.pid());
    CHECK(top(stacks) == "work::count_for_ever");
    CHECK(stacks.threads.at(0).state == 'T');
    CHECK(worker.is_in_state('T'));  // the kernel wakes it so that it stops again
  }
  CHECK(page.count() == before);
  worker.kill(SIGCONT);
  CHECK(page.moves());
}

TEST_CASE("every thread is there with its name, the main thread first", "[stacks]") {
  Worker worker("threads");
  REQUIRE(worker.sleeps());
  const ProcessStacks stacks = take_until(worker.pid(), [](const ProcessStacks& seen) {
    return std::count_if(seen.threads.begin(), seen.threads.end(),
                         [](const ThreadStack& thread) { return has_function(thread, "work::wait_in_thread"); }) == 3;
  });
  REQUIRE(stacks.threads.size() == 4);
  CHECK(stacks.threads[0].main);
  for (int i = 1; i <= 3; ++i) {
    CHECK_FALSE(stacks.threads[i].main);
    CHECK(stacks.threads[i].name == "loader " + std::to_string(i - 1));
  }

  const auto few = take_stacks({worker.pid()}, kLimit, {.python = false, .threads_max = 2});
  CHECK(few[0].threads.size() == 2);
  CHECK(few[0].missing == "only the first 2 of 4 threads");
}

TEST_CASE("no signal is lost while stacks are taken", "[stacks]") {
  const CountPage page;
  Worker worker("signals", page.name());
  constexpr int kStops = 1'000;
  std::atomic<bool> enough = false;
  unsigned long sent = 0;
  std::thread sender([&] {  // real-time signals are queued, each of them
    while (!enough)
      if (sent < page.count() + 4 && sigqueue(worker.pid(), SIGRTMIN, {}) == 0)
        ++sent;
      else
        std::this_thread::yield();
  });
  int stopped = 0;  // without unwinding: thousands of stops, of which some meet a signal
  for (int i = 0; i < kStops; ++i)
    stopped += !capture(worker.pid(), 1, Clock::now() + kLimit).threads.at(0).registers.empty();
  enough = true;
  sender.join();
  CHECK(stopped > kStops / 2);  // under load one may not come to its stop in time
  CHECK(eventually([&] { return page.count() == sent; }, kLimit));
  CHECK_FALSE(worker.ended());
}

// As the agent's main thread does, which must neither take a stop for an end nor the news of it away.
TEST_CASE("who waits for children sees none end while their stacks are taken", "[stacks]") {
  const Spawned worker = spawn({kWorker, {"stack_worker", "sleep"}, {}});
  REQUIRE(worker.error == 0);
  REQUIRE(eventually([&] { return process_state(worker.pid).letter == 'S'; }, kLimit));
  constexpr int kTimes = 30;
  std::atomic<bool> done = false;
  int taken = 0;
  std::thread taker([&] {
    for (int i = 0; i < kTimes; ++i)
      if (const ProcessStacks stacks = take(worker.pid); !stacks.threads.empty())
        taken += has_function(stacks.threads[0], "main");
    done = true;
  });
  bool ended = false;
  while (!done) {
    reap_orphans({worker.pid});
    ended |= reap(worker.child(), worker.pid).has_value();
  }
  taker.join();
  CHECK(taken == kTimes);
  CHECK_FALSE(ended);
  CHECK(eventually([&] { return process_state(worker.pid).letter == 'S'; }, kLimit));
  ::kill(worker.pid, SIGKILL);
  CHECK(eventually([&] { return reap(worker.child(), 0).has_value(); }, kLimit));
}

TEST_CASE("a process that another one traces is left alone", "[stacks]") {
  Worker worker("sleep");
  Worker tracer("trace", std::to_string(worker.pid()));
  REQUIRE(worker.sleeps());
  const ProcessStacks stacks = take(worker.pid());
  CHECK(stacks.missing == "the stacks of process " + std::to_string(worker.pid()) + " cannot be taken: process " +
                              std::to_string(tracer.pid()) +
                              " (stack_worker) traces it already, and only one can: end that one");
  REQUIRE(stacks.threads.size() == 1);
  CHECK(stacks.threads[0].state == 'S');
  CHECK(stacks.threads[0].frames.empty());
  CHECK_FALSE(top_frame(stacks));
}

TEST_CASE("a thread in uninterruptible sleep is told with what it waits for, and not held", "[stacks]") {
  const TempFolder folder;
  fs::create_directory(folder / "stuck");
  Command server({programs_folder() + "/stuck_file_system", folder / "stuck"});
  if (!eventually([&] { return !server.out().empty() || server.ended(); }, kLimit) || server.ended())
    return skip("no file system can be mounted here");
  Worker worker("open", folder / "stuck/file"), other("sleep");
  REQUIRE(other.sleeps());
  const ProcessStacks stuck =
      take_until(worker.pid(), [](const ProcessStacks& seen) { return !seen.threads.at(0).missing.empty(); });
  INFO(to_text(stuck));
  CHECK_THAT(stuck.threads[0].missing, StartsWith("it cannot be stopped: in state D"));
  CHECK(stuck.threads[0].state == 'D');
  CHECK(top(take_stacks({worker.pid(), other.pid()}, kLimit, {.python = false}).at(1)) == "work::sleep_for_ever");

  server.kill(SIGTERM);  // closes the device, which wakes the sleeper
  worker.wait_for_output("opened", kLimit);
  CHECK(worker.wait_exit(kLimit) == exited(2));
}

TEST_CASE("a process that has ended says so", "[stacks]") {
  const Spawned child = spawn({"/bin/true", {"true"}, {}});
  REQUIRE(eventually([&] { return process_state(child.pid).letter == 'Z'; }, kLimit));
  CHECK(take(child.pid).missing == "the process has ended");
  CHECK(reap(child.child(), 0));
  CHECK(take(child.pid).missing == "the process has ended");
}

TEST_CASE("threads go on being taken after the main thread has ended", "[stacks]") {
  Worker worker("leave");
  REQUIRE(worker.is_in_state('Z'));
  const ProcessStacks stacks = take_until(
      worker.pid(), [](const ProcessStacks& seen) { return has_function(seen.threads.at(1), "work::wait_in_thread"); });
  CHECK(stacks.missing.empty());
  CHECK(stacks.threads[0].missing == "it has ended");
}

TEST_CASE("what was not reached within the limit says so", "[stacks]") {
  Worker worker("sleep");
  const auto stacks = take_stacks({worker.pid(), worker.pid()}, 0s);
  REQUIRE(stacks.size() == 2);
  for (const ProcessStacks& one : stacks) {
    CHECK(one.pid == worker.pid());
    CHECK(one.missing == "there was no time left for it");
  }
}

TEST_CASE("an ordinary user takes the stacks of its own processes, and is told why not of others'", "[stacks]") {
  if (geteuid() != 0) return skip("only root can become another user");
  const std::vector<std::string> as_nobody{
      "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", programs_folder() + "/stack_taker", "--print"};
  const auto taken = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> words = as_nobody;
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run(words, kLimit);
  };
  const Ended own = taken({"--start", kWorker, "deadlock"});
  if (own.code == 126 || own.code == 127) return skip("the build folder is closed to other users");
  CHECK(own == exited(0));
  CHECK_THAT(own.out, Contains("in work::lock_twice"));

  Worker of_root("sleep");
  const Ended other = taken({std::to_string(of_root.pid())});
  CHECK_THAT(other.out, Contains("it runs as user 0 and ddprun as user 65534: "));

  // As Yama does: the kernel refuses to let a process trace its own child.
  const Ended refused = taken({"--start", kWorker, "undumpable"});
  CHECK(refused == exited(0));
  CHECK_THAT(refused.out, Contains("it is not dumpable (PR_SET_DUMPABLE"));
}

TEST_CASE("stacks reach an event loop", "[stacks]") {
  Worker worker("sleep");
  REQUIRE(worker.sleeps());
  asio::io_context io;
  AsyncStacks async(io, {.python = false});
  for (int i = 0; i < 3; ++i) {
    std::vector<ProcessStacks> stacks;
    async.take({worker.pid()}, kLimit, [&](auto taken) {
      CHECK_FALSE(async.busy());
      stacks = std::move(taken);
    });
    CHECK(async.busy());
    io.restart();
    io.run();
    REQUIRE(stacks.size() == 1);
    CHECK(top(stacks[0]) == "work::sleep_for_ever");
  }
}

TEST_CASE("an event loop has its answer at the limit", "[stacks][waits]") {
  const TempFolder folder;
  const std::string script = folder.write("py-spy", "#!/bin/sh\nexec sleep 1000\n", true);
  Command python({venv_python(), "-c", "print('ready', flush=True); import time; time.sleep(1000)"});
  if (access(venv_python().c_str(), X_OK) != 0) return skip("no " + venv_python());
  python.wait_for_output("ready", kLimit);
  asio::io_context io;
  AsyncStacks async(io, {.environment = {"PYSPY_BIN=" + script, "PATH=/usr/bin:/bin"}});
  std::vector<ProcessStacks> stacks;
  async.take({python.pid()}, 1s, [&](auto taken) { stacks = std::move(taken); });
  io.run();
  REQUIRE(stacks.size() == 1);
  CHECK(stacks[0].python.empty());
}

TEST_CASE("a request that is given up calls nothing back", "[stacks]") {
  Worker worker("sleep");
  asio::io_context io;
  bool called = false;
  for (int i = 0; i < 20; ++i) {
    AsyncStacks async(io, {.python = false});
    async.take({worker.pid(), worker.pid()}, kLimit, [&](const auto&) { called = true; });
    std::this_thread::sleep_for(i * 100us);  // given up at any point of it
  }
  io.run();
  CHECK_FALSE(called);
}
