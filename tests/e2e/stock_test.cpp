// Stock PyTorch under ddprun: what it detects of its launcher, where its ranks meet, and a DDP script that loses a
// rank.
#include "tests/e2e/programs.h"
#include "tests/support/free_port.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

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

void kill_once(std::uint64_t seed) {
  const Plan plan(seed);
  INFO("SIGKILL for rank " << plan.rank << " in epoch " << plan.epoch + 1);
  TempFolder folder;
  Command job({ddprun_program(), "--standalone", "--nproc_per_node=2",
               source_folder() + "/examples/ddp-python/train.py", std::to_string(kEpochs)},
              {.env = {{"PYTHON_EXEC", torch_python()}}, .cwd = folder.path()});
  job.wait_for_output("^epoch " + std::to_string(plan.epoch) + " ", 180s);
  const pid_t victim = job.wait_for_process("RANK", std::to_string(plan.rank), 1s);
  const Mark death = job.mark();
  REQUIRE(::kill(victim, SIGKILL) == 0);
  const auto resumed = job.wait_for_output("going on from snapshot.pt: (\\d+) epochs are done", 180s, death);
  REQUIRE(std::stoi(resumed[1]) >= plan.epoch - 1);  // an epoch is printed, then saved

  const Ended end = job.wait_exit(180s);
  REQUIRE(end == exited(0));
  REQUIRE(has(end.out.substr(death.out), "epoch " + std::to_string(kEpochs) + " of"));
  REQUIRE(job.all_gone(10s));
}

constexpr auto kImportLimit = 120s;  // four imports of torch on a busy machine

// Prints rank and world size in a process group made with that method, and the sum of all ranks.
const std::string kMeeting =
    "import os, sys, torch, torch.distributed as dist\n"
    "dist.init_process_group('gloo', init_method=sys.argv[1], rank=int(os.environ['RANK']), "
    "world_size=int(os.environ['WORLD_SIZE']))\n"
    "total = torch.tensor([dist.get_rank()]); dist.all_reduce(total); dist.barrier()\n"
    "os.write(1, f'{dist.get_rank()} of {dist.get_world_size()}: {int(total)}\\n'.encode())\n"
    "dist.destroy_process_group()\n";

}  // namespace

TEST_CASE("a stock Python DDP script killed once comes back and finishes its epochs", "[kill]") {
  if (skipped_if(!soaking(), "only with DDPRUN_SOAK=1: docs_test.cpp does once what the example's README says")) return;
  Series series("stock Python DDP, 2 ranks, one SIGKILL from outside: finishes all epochs, exit 0", 0, 20);
  series.run(kill_once);
}

TEST_CASE("PyTorch knows that it was launched, and that it was not") {
  const TempFolder folder;
  const std::string script = folder.write(
      "launched.py", "import torch.distributed as dist\nprint('launched:', dist.is_torchelastic_launched())\n");
  CHECK(run({torch_python(), script}, kImportLimit).out == "launched: False\n");
  const Ended ended = run(job_of({"--run-path", "--nnodes=1", "--nproc-per-node=1", script}), kImportLimit,
                          {.env = {{"PYTHON_EXEC", torch_python()}}});
  CHECK(ended == exited(0));
  CHECK(ended.out == "launched: True\n");
}

TEST_CASE("PyTorch's ranks meet at the address and port given by hand, by tcp:// and by env://") {
  const TempFolder folder;
  const std::string script = folder.write("meeting.py", kMeeting);
  for (const bool by_tcp : {true, false}) {
    const std::string port = std::to_string(free_port());
    const Ended ended = run(
        job_of({"--run-path", "--nnodes=1", "--nproc-per-node=4", "--master-addr=localhost", "--master-port=" + port,
                "--max-restarts=0", script, by_tcp ? "tcp://localhost:" + port : "env://"}),
        kImportLimit, {.env = {{"PYTHON_EXEC", torch_python()}}});
    CHECK(ended == exited(0));
    for (const char* rank : {"0 of 4: 6\n", "1 of 4: 6\n", "2 of 4: 6\n", "3 of 4: 6\n"}) CHECK(has(ended.out, rank));
  }
}
