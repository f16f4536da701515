// The agent's parts without processes, sockets or an agent: each by its hooks alone.
#include <sys/wait.h>

#include <asio/post.hpp>

#include "agent/desk/node_view.h"
#include "agent/hang/round_account.h"
#include "agent/machine/machine_watch.h"
#include "agent/round/supervision.h"
#include "rendezvous/base/handler_time.h"
#include "tests/support/test.h"

namespace {

Seat seat_of(int round) {
  return {.round = round, .group_rank = 1, .group_world_size = 2, .workers = 2, .first_rank = 2, .world_size = 4};
}

}  // namespace

TEST_CASE("events that arise while an action is carried out wait, and deadlines become events", "[parts]") {
  asio::io_context io;
  Words seen;
  std::optional<Supervision> supervision;
  const auto note = [&](const std::string& text) { seen.push_back(text.substr(0, text.find(' '))); };
  supervision.emplace(io, StopPolicy{.stop_grace = 1ms},
                      Supervision::Hooks{[&](const Event& event) { note(to_string(event)); },
                                         [&](const Action& action) {
                                           note(to_string(action));
                                           if (!std::holds_alternative<StartWorkers>(action)) return;
                                           for (int rank : {0, 1}) supervision->dispatch(WorkerStarted{1, rank});
                                           note("started");
                                         }});
  supervision->dispatch(RoundFormed{seat_of(1)});
  supervision->dispatch(RoundStarted{1});
  CHECK(seen == Words{"round-formed", "confirm-round", "round-started", "start-workers", "started", "worker-started",
                      "worker-started", "report-running"});
  seen.clear();
  supervision->dispatch(WorkerExited{1, 0, {.code = 1}});
  CHECK(seen == Words{"worker-exited", "ask-to-leave", "signal-workers", "report-failure"});
  io.run_one_for(20s);
  CHECK(seen.at(4) == "tick");
  CHECK(seen.at(5) == "signal-workers");
}

TEST_CASE("a node's view has its ranks while it has workers, and tells stacks of those that run", "[parts]") {
  std::optional<Seat> seat;
  bool has_workers = true;
  std::vector<pid_t> asked;
  ddprun::Duration age = 1s;
  std::optional<ddprun::Duration> still = 4s;
  const ddprun::agent::NodeView view(
      "node7", {[&] { return seat ? &*seat : nullptr; }, [&] { return has_workers; },
                [](NodeReport& out) { out.declined_fault = 5; },
                [&] {
                  return std::vector<Standing>{{.rank = 3, .activity = Activity::ended}, {.rank = 2, .age = age}};
                },
                [] { return std::optional<ddprun::Duration>(2ms); },
                [](int rank) { return rank == 0 ? std::optional(getpid()) : std::nullopt; },
                [](int) { return Progress{.loss = 0.5}; },
                [&](int) { return WorkerUse{.processors = 1.5, .memory = 2000, .still = still}; },
                [&](std::vector<pid_t> pids, ddprun::Duration, AsyncStacks::OnTaken taken) {
                  asked = pids;
                  taken({{}});
                }});
  const auto stacks = [&] {
    std::string text = "none";
    view.take_stacks([&](const std::string& taken) { text = taken; });
    return text;
  };
  CHECK(stacks() == "none");
  CHECK(view.report().round == 0);
  CHECK_FALSE(view.has_rank_0());
  seat = seat_of(3);
  const NodeReport report = view.report();
  CHECK(report.declined_fault == 5);
  CHECK(report.step_us == 2000);
  REQUIRE(report.ranks.size() == 2);
  CHECK(report.ranks[0].rank == 2);
  CHECK(report.ranks[0].pid == getpid());
  CHECK(report.ranks[0].loss == 0.5);
  CHECK(report.ranks[0].processors == 1.5);
  CHECK(report.ranks[0].memory == 2000);
  CHECK_FALSE(report.ranks[0].silent);  // it may still attach
  CHECK_FALSE(report.ranks[0].still);
  CHECK(report.ranks[1].pid == 0);
  age = 60s;
  CHECK(view.report().ranks[0].silent);
  CHECK(view.report().ranks[0].still);
  CHECK(view.report().ranks[0].age == 4s);
  still.reset();
  CHECK_FALSE(view.report().ranks[0].still);
  CHECK(view.report().ranks[0].age == 60s);
  CHECK(stacks().starts_with("rank 2 on node7, process " + std::to_string(getpid())));
  CHECK(asked == std::vector<pid_t>{getpid()});
  has_workers = false;
  CHECK(view.report().ranks.empty());
}

TEST_CASE("a round's account is closed once, and told until the coordinator has it", "[parts]") {
  asio::io_context io;
  bool in_reach = false;
  std::vector<int> told;
  RoundAccount account(io, {[] { return 1; },
                            [](int) { return Progress{}; },
                            [] { return std::nullopt; },
                            [&](int round, const RoundSpent&) { return told.push_back(round), in_reach; },
                            {}});
  CHECK_FALSE(account.spent());
  CHECK_FALSE(account.close());
  account.begin(seat_of(4));
  account.workers_start();
  CHECK_FALSE(account.closed());
  CHECK(account.close());
  CHECK_FALSE(account.close());
  in_reach = true;
  for (int i = 0; i < 2; ++i) account.tell();
  CHECK(told == std::vector<int>{4, 4});
  account.tell(/*again=*/true);
  account.begin(seat_of(5));
  account.tell();
  CHECK(told == std::vector<int>{4, 4, 4});
}

TEST_CASE("a machine without checks may take part at once, and has no children", "[parts]") {
  asio::io_context io;
  MachineWatch machine(io, {}, {});
  machine.start();
  CHECK(machine.known_or_check());
  CHECK(machine.unfit().empty());
  CHECK(machine.children().empty());
}

#ifdef ASIO_CUSTOM_HANDLER_TRACKING
TEST_CASE("a handler of the loop that waits ends the agent, one that computes or may wait does not", "[parts]") {
  const auto end_of = [](const std::function<void()>& handler) {
    const pid_t child = fork();
    if (child == 0) {
      close(STDERR_FILENO);
      std::signal(SIGABRT, SIG_DFL);  // Catch would tell it
      asio::io_context io;
      ddprun::watch_handlers_of_this_thread();
      asio::post(io, handler);
      io.run();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  };
  const auto wait = [] { std::this_thread::sleep_for(150ms); };
  CHECK(WTERMSIG(end_of(wait)) == SIGABRT);
  CHECK(end_of([] {
          for (const auto end = Clock::now() + 150ms; Clock::now() < end;) continue;
        }) == 0);
  CHECK(end_of([&] {
          const ddprun::MayWait known;
          wait();
        }) == 0);
}
#endif
