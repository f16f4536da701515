#include "agent/hang/worker_watch.h"

#include "tests/agent/hang/record_server.h"
#include "tests/support/test.h"

namespace {

constexpr pid_t kNobody = 1 << 23;  // more than any process has
constexpr HangLimit kAtOnce{.time = ddprun::Duration::zero()};

// The ranks 4 and 5 wait, for too long, and 6 has ended well.
struct Rig {
  Rig() { watch.start({}); }
  void begin(int round) {
    const Seat seat{.round = round, .workers = 3, .first_rank = 4};
    running_round = round;
    watch.begin_round(seat);
    watch.workers_run(seat);
  }
  const std::vector<Standing>& told_now() {
    told.clear();
    watch.tell_standings();
    return told;
  }
  void await_stacks() {
    bool taken = false;
    watch.take_stacks({kNobody}, 20s, [&](const auto&) { taken = true; });  // after those asked for before
    CHECK(eventually([&] { return io.restart(), io.poll(), taken; }, 20s));
  }

  asio::io_context io;
  std::optional<int> running_round;
  std::map<int, pid_t> running{{0, kNobody}, {1, kNobody}};
  Progress seen{.steps_done = 4, .at = Clock::now(), .beat = Beat{DDPRUN_BEAT_WAIT, 1, "grads"}};
  std::vector<Standing> told;
  std::vector<int> signals, hung, kept, standing, moving;
  std::string how, record;  // of the last one that stands; the path
  WorkersSeen workers{[this] { return running; }, [] { return std::vector{2}; }, [this](int) { return seen; },
                      [this](int signal) { signals.push_back(signal); }, [this](int) { return record; }};
  WorkerWatch watch{
      io,
      {.named = {{Activity::wait, kAtOnce}}},
      workers,
      {[this] { return running_round; }, [this](const std::vector<Standing>& all) { told = all; },
       [](const LearnedTimes&) {}, [this](const HungWorker& worker) { hung.push_back(worker.local_rank); },
       [this](const StandingWorker& worker) {
         standing.push_back(worker.local_rank);
         how = worker.how;
       },
       [this](int local_rank, Duration) { moving.push_back(local_rank); }, [](const auto&) {},
       [this](const std::vector<int>& local_ranks, const auto&) {
         kept.insert(kept.end(), local_ranks.begin(), local_ranks.end());
       }}};
};

}  // namespace

TEST_CASE("how all workers of a node stand is told as soon as one is overdue, while the round runs", "[hang]") {
  Rig rig;
  CHECK(rig.told_now().empty());
  rig.begin(1);
  REQUIRE(rig.told.size() == 3);
  CHECK(rig.told[1].rank == 5);
  CHECK(rig.told[1].overdue);
  CHECK(rig.told[2].rank == 6);
  CHECK(rig.told[2].activity == Activity::ended);
  rig.running_round.reset();
  rig.told.clear();
  rig.io.run_for(20s);
  CHECK(rig.io.stopped());
  CHECK(rig.told.empty());
}

TEST_CASE("workers that a user has stopped are not late, nor when they go on, and the next round's are not stopped",
          "[hang]") {
  Rig rig;
  rig.begin(1);
  rig.watch.suspend(true);
  CHECK(rig.told_now().at(1).paused);
  rig.watch.suspend(false);
  CHECK(rig.signals == std::vector{SIGSTOP, SIGCONT});
  CHECK_FALSE(rig.told_now().at(1).paused);
  CHECK_FALSE(rig.told.at(1).overdue);
  rig.watch.suspend(true);
  rig.begin(2);
  CHECK_FALSE(rig.watch.suspended());
  CHECK_FALSE(rig.told_now().at(1).paused);
}

TEST_CASE("a worker is blamed with its stack, unless it has gone on, has ended, or its round is over", "[hang]") {
  Rig rig;
  rig.begin(2);
  rig.watch.blame(1, 5, "waits", true);
  rig.watch.blame(2, 6, "waits", true);
  rig.watch.blame(2, 5, "waits", true);
  rig.seen.at = Clock::now();
  rig.await_stacks();
  CHECK(rig.hung.empty());
  rig.told_now();
  rig.watch.blame(2, 5, "waits", true);
  rig.await_stacks();
  CHECK(rig.hung == std::vector{1});
  CHECK(rig.kept == std::vector{1});
  CHECK(rig.watch.hung()->of_all);
  rig.begin(3);
  CHECK_FALSE(rig.watch.hung());
  rig.told_now();
  rig.watch.blame(3, 4, "waits", true);
  rig.running_round.reset();
  rig.await_stacks();
  CHECK(rig.hung.size() == 1);
}

TEST_CASE("a worker that is not to be ended yet is told once as long as it stands still, and when it goes on",
          "[hang]") {
  Rig rig;
  rig.seen.beat->kind = DDPRUN_BEAT_COMPUTE;
  rig.begin(1);
  for (int i = 0; i < 3; ++i) {
    rig.told_now();
    rig.watch.blame(1, 5, "has computed", false);
    rig.await_stacks();
  }
  CHECK(rig.standing == std::vector{1});
  CHECK(rig.how == "has computed");
  CHECK(rig.hung.empty());
  CHECK(rig.moving.empty());
  rig.seen.at = *rig.seen.at + 1ms;
  CHECK(eventually([&] { return rig.io.restart(), rig.io.poll(), !rig.moving.empty(); }, 20s));
  CHECK(rig.moving == std::vector{1});
}

TEST_CASE("where PyTorch tells no collectives, that is said with a rank that stands still", "[hang]") {
  Rig rig;
  const TempFolder folder;
  rig.record = folder.write("0.groups", "{}").replace_extension().string();
  rig.seen.beat->kind = DDPRUN_BEAT_COMPUTE;
  rig.begin(1);
  rig.told_now();
  rig.watch.blame(1, 5, "has computed", false);
  rig.await_stacks();
  CHECK(rig.how == "has computed; its record of collectives could not be read (PyTorch 2.15 has one)");
}

TEST_CASE(
    "when the coordinator asks, all records are told, also where nobody here is late, and those of before are not",
    "[hang]") {
  Rig rig;
  const TempFolder folder;
  rig.record = (folder.path() / "0").string();
  rig.running.erase(1);
  rig.seen.beat->kind = DDPRUN_BEAT_COMPUTE;  // of which nothing is known before ten steps
  RecordServer server(rig.io, rig.record,
                      R"({"entries":[{"process_group":["0","default_pg"],"collective_seq_id":5}]})");
  rig.begin(1);
  for (const std::size_t asked : {1, 2}) {
    rig.told_now();
    REQUIRE(eventually([&] { return rig.io.restart(), rig.io.poll(), !rig.told.empty(); }, 20s));
    CHECK_FALSE(rig.told.at(0).overdue);
    REQUIRE(rig.told.at(0).record);
    CHECK(rig.told.at(0).record->groups.at(0).entered == 5);
    CHECK(server.asked.size() == asked);
    rig.seen.at = *rig.seen.at + 1ms;  // it goes on
    rig.watch.look();
  }
}

TEST_CASE("of a worker that reports nothing it is told whether it works", "[hang]") {
  Rig rig;
  rig.running = {{0, getpid()}};  // whose stack cannot be had here
  rig.seen.beat->kind = DDPRUN_BEAT_COMPUTE;
  rig.begin(1);
  const TempFolder folder;
  for (int i = 0; i < 2; ++i) {
    CHECK_FALSE(rig.told_now().at(0).works);
    std::ofstream(folder / "data") << std::string(i << 22, 'x');
    rig.watch.blame(1, 4, "has computed", false);
    rig.await_stacks();
  }
  CHECK(rig.told_now().at(0).works);
  rig.seen.beat->kind = DDPRUN_BEAT_WAIT;
  rig.watch.look();
  CHECK_FALSE(rig.told_now().at(0).works);
  rig.seen.beat->kind = DDPRUN_BEAT_COMPUTE;
  rig.seen.at = *rig.seen.at + 1ms;
  rig.watch.look();
  CHECK_FALSE(rig.told_now().at(0).works);
}

TEST_CASE("before workers are stopped the stacks of those that stand still are taken, once in a round", "[hang]") {
  Rig rig;
  int asked = 0;
  bool run_still = true;
  const auto then = [&] { return ++asked, run_still; };
  CHECK_FALSE(rig.watch.takes_stacks_before(then));
  for (int round : {1, 2}) {
    rig.begin(round);
    CHECK(rig.watch.takes_stacks_before(then));
    rig.await_stacks();
    CHECK(asked == round);
    CHECK(rig.kept == std::vector{0, 1});  // of the second round's nobody is left
    CHECK_FALSE(rig.watch.takes_stacks_before(then));
    run_still = false;
  }
}
