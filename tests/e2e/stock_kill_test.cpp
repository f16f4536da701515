// A stock Python DDP script under ddprun loses one rank to SIGKILL and comes back from its snapshot.
#include <signal.h>

#include <random>

#include "tests/e2e/programs.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"
#include "tests/support/places.h"
#include "tests/support/soak.h"

using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

constexpr int kEpochs = 20;

// Kills the rank in the first half of the run, so that epochs are left after the restart.
struct Plan {
  explicit Plan(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    epoch = 2 + static_cast<int>(random() % (kEpochs / 2));
    rank = static_cast<int>(random() % 2);
  }
  int epoch, rank;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void kill_once(std::uint64_t seed) {
  const Plan plan(seed);
  INFO("SIGKILL for rank " << plan.rank << " in epoch " << plan.epoch);
  TempFolder folder;
  Command job({ddprun_program(), "--standalone", "--nproc_per_node=2", source_folder() + "/tests/e2e/stock_ddp.py",
               std::to_string(kEpochs), "1"},
              {.env = {{"PYTHON_EXEC", torch_python()}}, .cwd = folder.path()});
  job.wait_for_output("\\[RANK " + std::to_string(plan.rank) + "\\] Epoch " + std::to_string(plan.epoch) + " ", 180s);
  const pid_t victim = job.wait_for_process("RANK", std::to_string(plan.rank), 1s);
  const Mark death = job.mark();
  REQUIRE(::kill(victim, SIGKILL) == 0);
  const auto resumed = job.wait_for_output("Resuming training from snapshot at Epoch (\\d+)", 180s, death);
  REQUIRE(std::stoi(resumed[1]) >= plan.epoch - 1);  // rank 1 may be an epoch ahead of rank 0, which saves

  const Ended end = job.wait_exit(180s);
  REQUIRE(end == exited(0));
  for (const char* rank : {"0", "1"})
    REQUIRE(
        contains(end.out.substr(death.out), "[RANK " + std::string(rank) + "] Epoch " + std::to_string(kEpochs - 1)));
  REQUIRE(contains(end.out, "Epoch " + std::to_string(kEpochs - 1) + " | Training snapshot saved"));
  REQUIRE(job.all_gone(10s));
}

}  // namespace

TEST_CASE("a stock Python DDP script killed once comes back and finishes its epochs", "[kill]") {
  Series series("stock Python DDP, 2 ranks, one SIGKILL from outside: finishes all epochs, exit 0", 1, 20);
  series.run(kill_once);
}
