// What stock PyTorch detects of its launcher: that there is one, and where its ranks meet.
#include "tests/e2e/programs.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"
#include "tests/support/free_port.h"

using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

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
