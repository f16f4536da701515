// The library `ddp` by real processes: ddp_worker has the scenarios.
#include "tests/support/test.h"
#include "tests/trainer/ranks.h"

namespace {

Words worker(const Words& words) { return with({programs_folder() + "/ddp_worker"}, words); }

void works(int ranks, const char* scenario) {
  INFO(ranks << " ranks");
  Ranks(ranks, worker({scenario})).wait_all_good();
}

}  // namespace

TEST_CASE("DistributedDataParallel has Python's bits in each of its modes, at 1, 2 and 4 ranks", "[ddp]") {
  for (const int ranks : {1, 2, 4}) {
    INFO(ranks << " ranks");
    const std::string ours = Ranks(ranks, worker({"parity"})).wait_all_good().out;
    const std::string theirs =
        Ranks(ranks, {venv_python(), source_folder() + "/tests/trainer/ddp_parity.py"}).wait_all_good().out;
    CHECK(ours == theirs);
    CHECK_THAT(ours, Contains("clip weights "));
    if (ranks == 2) CHECK(Ranks(ranks, worker({"parity-with-beats"})).wait_all_good().out == theirs);
  }
}

TEST_CASE("watch() reports what a Python script does, and changes none of its numbers", "[ddp]") {
  const std::string said = Ranks(2,
                                 {venv_python(), source_folder() + "/tests/trainer/watched_ddp.py",
                                  source_folder() + "/rendezvous/channel", source_folder() + "/launcher/python"},
                                 {{"PYTHONDONTWRITEBYTECODE", "1"}})
                               .wait_all_good()
                               .out;
  CHECK(
      said ==
      "without ddprun nothing is replaced: True\n"
      "tensor: the same numbers | phase3 compute wait:grads compute step1 load | compute wait:grads compute step4 "
      "load\n"
      "tuple: the same numbers | compute wait:grads compute step5 load | compute wait:grads compute step8 load\n"
      "dict: the same numbers | compute wait:grads compute step9 load | compute wait:grads compute step12 load\n"
      "dataclass: the same numbers | compute wait:grads compute step13 load | compute wait:grads compute step16 load\n"
      "batch norm: the same numbers | compute wait:buffers compute wait:grads compute step17 load | "
      "compute wait:buffers compute wait:grads compute step20 load\n"
      "accumulation: the same numbers | compute load compute load compute wait:grads compute step21 load | "
      "compute load compute load compute wait:grads compute step24 load\n"
      "static graph: the same numbers | compute wait:grads compute step25 load | compute wait:grads compute step28 "
      "load\n"
      "unused parameters: the same numbers | compute wait:grads compute step29 load | "
      "compute wait:grads compute step32 load\n"
      "no DDP: the same numbers | compute step33 load | compute step36 load\n"
      "late rank: (True, True) static: (True, True) unused: (True, True)\n"
      "evaluation: phase4 none wait:buffers none wait:buffers none phase3 compute wait:buffers compute\n"
      "no gradients: phase4 none wait:buffers none\n"
      "evaluation of the inner module: phase4 none\n"
      "copied inner module: phase4 none\n"
      "inner module of a file needs no channel: True True\n"
      "save: phase5 none phase3 compute\n"
      "collectives: wait:barrier compute wait:reduce compute wait:gather compute\n"
      "asynchronous:\n"
      "after a backward that failed: wait:buffers compute wait:grads compute\n"
      "copied model: phase4 none\n"
      "a file of a watched model needs no channel: True True\n"
      "loaded model:\n"
      "own steps: wait:buffers compute wait:grads compute step37 load step500 "
      "compute wait:buffers compute wait:grads compute load step500\n"
      "steps counted: 2\n"
      "in a fork: 0 True\n");
}

TEST_CASE("a rank that waits for another one says so in its channel, and in what", "[ddp]") { works(2, "beats"); }

TEST_CASE("a rank with another model is named, with where it differs, on every rank", "[ddp]") {
  const auto [how, why] = GENERATE(table<const char*, const char*>({
      {"shape",
       "it has parameter 'first.weight' of Float [5, 4] where rank 0 has parameter 'first.weight' of Float [3, 4]"},
      {"name",
       "it has parameter 'head.weight' of Float [3, 4] where rank 0 has parameter 'first.weight' of Float [3, 4]"},
      {"layer", "it has parameter 'more.weight' of Float [2, 2] where rank 0 has nothing more"},
      {"missing", "it has no parameter 'more.weight' where rank 0 has parameter 'more.weight' of Float [2, 2]"},
      {"type",
       "it has parameter 'last.weight' of Double [2, 3] where rank 0 has parameter 'last.weight' of Float [2, 3]"},
      {"frozen",
       "it has parameter 'last.bias' of Float [2], frozen where rank 0 has parameter 'last.bias' of Float [2]"},
      {"all-frozen",
       "it has parameter 'first.weight' of Float [3, 4], frozen where rank 0 has parameter 'first.weight' of Float [3, "
       "4]"},
      {"buffer", "it has buffer 'count' of Float [2], frozen where rank 0 has buffer 'count' of Float [1], frozen"},
  }));
  CHECK(Ranks(3, worker({"other-model", how})).wait_all_refused() ==
        std::string("rank 1's model differs from rank 0's: ") + why + ". All ranks must build the same model.\n");
}

TEST_CASE("a layer that gets no gradient is named before the next step", "[ddp]") {
  CHECK_THAT(Ranks(2, worker({"layer-left-out"})).wait_all_refused(),
             Contains("the last step gave no gradient to unused.weight, unused.bias: the loss does not depend on what "
                      "they compute. Set find_unused_parameters"));
}

TEST_CASE("outputs of all kinds reach backward, and those outside the loss give no gradient", "[ddp]") {
  for (const int ranks : {1, 2}) works(ranks, "outputs");
}

TEST_CASE("gradients are summed under no_sync, and forgotten also where they lie in the buckets", "[ddp]") {
  for (const int ranks : {1, 2}) works(ranks, "gradients");
}

TEST_CASE("options that save kernels change no bit of the weights", "[ddp]") {
  for (const int ranks : {1, 2, 3}) works(ranks, "kernel-options");
}

TEST_CASE("every forward pass begins with rank 0's buffers, unless that is left out", "[ddp]") {
  for (const int ranks : {1, 3}) works(ranks, "buffers");
}

TEST_CASE("a scaled step is the unscaled one, and none where a gradient is infinite", "[ddp]") { works(1, "scaler"); }

TEST_CASE("half precision learns what float does, and a step that overflows on one rank is left out on all", "[ddp]") {
  for (const int ranks : {1, 2}) works(ranks, "half");
}

TEST_CASE("a loader gives each rank its batches whole", "[ddp]") { works(2, "batches"); }

TEST_CASE("a loss that is not finite on one rank costs all of them one step, in each mode", "[ddp]") {
  for (const int ranks : {2, 3}) Ranks(ranks, worker({"bad-loss", "skip"})).wait_all_good();
}

TEST_CASE("a loss that is not finite ends the run by the same sentence on every rank", "[ddp]") {
  CHECK(Ranks(3, worker({"bad-loss", "stop"})).wait_all_refused() ==
        "training ends at step 1: the loss of rank 1 is not a number. Lower the learning rate, clip the gradients, or "
        "look at that rank's samples.\n");
}

TEST_CASE("SyncBatchNorm computes what BatchNorm does on the whole batch, at 1, 2 and 4 ranks", "[ddp]") {
  for (const int ranks : {1, 2, 4}) works(ranks, "sync-batch-norm");
}

TEST_CASE("BatchNorm layers are converted in place, and one that cannot be is named", "[ddp]") {
  for (const int ranks : {1, 2}) works(ranks, "conversion");
}
