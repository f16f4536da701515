// At a limit of threads (pids.max, ulimit -u) a part of the agent says so, and goes on without, or later.
#include "tests/support/no_threads.h"

#include "agent/copies/copy_exchange.h"
#include "agent/logs/log_pipe.h"
#include "agent/machine/health_check.h"
#include "agent/stacks/take_stacks.h"
#include "agent/tell/job_state.h"
#include "rendezvous/peer/resolve.h"
#include "tests/support/test.h"

namespace {

const std::string kRefused = "no thread could be created: Resource temporarily unavailable";

}  // namespace

TEST_CASE("what needs a thread says that there can be none", "[no_threads]") {
  asio::io_context io;
  AsyncStacks stacks(io, {});
  std::string missing;
  HealthCheck health(
      io, [] { return ""; }, "", {}, [] {});
  const NoThreads none;
  CHECK(take_stacks({getpid()}, 20s).at(0).missing == "no stacks: " + kRefused);
  stacks.take({getpid()}, 20s, [&](const std::vector<ProcessStacks>& taken) { missing = taken.at(0).missing; });
  io.run_one_for(10s);
  CHECK(missing == "no stacks: " + kRefused);
  health.check();
  CHECK(health.why() == kRefused);
  CHECK(look_up_in_thread("localhost").get().error == kRefused);
  CHECK_THROWS_WITH(LogPipes(), StartsWith("cannot start: " + kRefused + ". Raise the limit of processes"));
}

TEST_CASE("what waits for a thread goes on once there can be one", "[no_threads]") {
  const TempFolder folder;
  std::vector<std::string> said;
  CopyMemory memory = CopyMemory::create(1, 1 << 20);
  std::optional<CopyExchange> copies;
  {
    FileThread files([&](const std::string& line) { said.push_back(line); });
    JobState state({folder / "ledger", {}}, files);
    {
      const NoThreads none;
      for (int i = 0; i < 2; ++i) state.save({.counts = {.crashes = 1}}, nullptr);
      copies.emplace(memory, CopyExchange::Hooks{});
      CHECK(copies->start() == kRefused);
    }
    CHECK(copies->start().empty());
    state.save({.counts = {.crashes = 2}}, nullptr);
  }
  CHECK(load_state(folder / "ledger", {}).counts.crashes == 2);
  CHECK(said == Words{(folder / "ledger").string() + " cannot be written now: " + kRefused});
}
