// `train` over NCCL, where there are GPUs. Without one every test says so and is skipped.
#include "trainer/ddp/gpu.h"
#include "tests/support/catch.h"
#include "tests/trainer/ranks.h"
#include "tests/trainer/snapshot_compare.h"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;

namespace {

int gpus_or_skip() {
  const int gpus = count_gpus();
  if (gpus == 0) WARN("skipped: this machine shows no GPU, or the trainer was built without NCCL");
  return gpus;
}

Ended run_on_gpus(int ranks, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), DDPRUN_BIN_DIR "/train");
  return Ranks(ranks, arguments).wait_all_good();
}

}  // namespace

TEST_CASE("train takes the GPUs there are and stops and resumes with the same bits", "[gpu]") {
  const int gpus = gpus_or_skip();
  if (gpus == 0) return;
  const int ranks = std::min(gpus, 2);
  const TempFolder folder;
  run_on_gpus(ranks, {"3", "--device=cuda", "--snapshot", folder / "undisturbed.pt"});
  run_on_gpus(ranks, {"1", "--snapshot", folder / "resumed.pt"});
  CHECK_THAT(run_on_gpus(ranks, {"3", "--snapshot", folder / "resumed.pt"}).out, Contains("1 of 3 epochs done"));
  const Snapshot undisturbed = load_snapshot(folder / "undisturbed.pt");
  CHECK(differences(undisturbed, load_snapshot(folder / "resumed.pt")) == "");
  CHECK(undisturbed.rng.at(0).cuda.defined());
}

TEST_CASE("more workers than GPUs is one sentence", "[gpu]") {
  const int gpus = gpus_or_skip();
  if (gpus == 0) return;
  Ranks ranks(gpus + 1, {DDPRUN_BIN_DIR "/train"});
  const Ended end = ranks[0].wait_exit(std::chrono::seconds(60));
  CHECK(end == exited(2));
  CHECK_THAT(end.err, Contains("workers on this machine but only " + std::to_string(gpus) + " GPU"));
}
