#include "agent/round/node_round.h"

#include "agent/link/coordination.h"
#include "tests/support/test.h"

namespace {

struct Rig {
  void begin(const Seat& seat) {
    round.take_seat(seat, *coordination);
    round.begin(seat);
  }
  asio::io_context io = {};
  RoundOptions options = {};
  LogPipes pipes = {};
  LogLayout layout{{}, "run-7"};
  std::unique_ptr<Coordination> coordination = make_local_coordination(io, {}, {});
  NodeRound round{io, options, {{}, layout, pipes}, {.on_all_started = [] {}}};
};

}  // namespace

TEST_CASE("how a round was ended is forgotten when the next one begins", "[round]") {
  Rig rig{.options = {.stop = {.stop_grace = 5s}}};
  const TimePoint t0 = Clock::now();
  rig.begin({.round = 1, .workers = 0});
  rig.round.start_workers();
  CHECK(rig.round.workers_run_since());
  rig.round.signal({SIGTERM}, t0);
  rig.round.signal({SIGKILL}, t0 + 4s);
  CHECK_FALSE(rig.round.grace_is_over());
  rig.round.signal({SIGKILL}, t0 + 5s);
  CHECK(rig.round.grace_is_over());
  rig.round.ended(/*planned=*/true);
  CHECK(rig.round.hold({0}, {}));
  CHECK(rig.round.held() == std::vector{0});
  rig.round.leave();
  CHECK(rig.round.held().empty());
  CHECK(rig.round.had_workers());  // all could save
  rig.begin({.round = 2});
  CHECK_FALSE((rig.round.grace_is_over() || rig.round.end_was_planned() || rig.round.workers_run_since()));
  rig.round.leave();
  CHECK_FALSE(rig.round.had_workers());
}

TEST_CASE("a round's workers are told its master, and get the memory that fits their number", "[round]") {
  Rig rig{.options = {.several_nodes = true, .memory_snapshots = 1 << 20}};
  CHECK(rig.round.prepare());
  for (int workers : {1, 3}) {
    rig.begin({.workers = workers, .master_host = "node" + std::to_string(workers), .master_port = 29500});
    const WorkerCommand& command = rig.options.command;
    CHECK(rig.options.workers == workers);
    CHECK(command.inherited.at("DDPRUN_MASTER_ADDR") == "node" + std::to_string(workers));
    CHECK(command.snapshot_memory_fd == rig.round.memory().snapshots_fd());
    CHECK(command.copy_memory_fd == rig.round.memory().copies_fd());
  }
}
