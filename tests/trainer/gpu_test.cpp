// `train` and the library over NCCL, where there are GPUs. Without one every test says so and is skipped.
#include <torch/torch.h>

#include "tests/support/catch.h"
#include "tests/trainer/collectives_check.h"
#include "tests/trainer/gpus_or_skip.h"
#include "tests/trainer/rank_threads.h"
#include "tests/trainer/ranks.h"
#include "tests/trainer/snapshot_compare.h"
#include "trainer/ddp/snapshot/staging.h"

using namespace ddprun;
using namespace ddprun::test;
using Catch::Matchers::Contains;

namespace {

Ended run_on_gpus(int ranks, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program("train"));
  return Ranks(ranks, arguments).wait_all_good();
}

// A scenario of ddp_worker on one GPU, and on two where there are two.
void works_on_gpus(int gpus, const std::vector<std::string>& words) {
  std::vector<std::string> argv{program("ddp_worker")};
  argv.insert(argv.end(), words.begin(), words.end());
  for (int ranks = 1; ranks <= std::min(gpus, 2); ++ranks) {
    INFO(ranks << " ranks");
    Ranks(ranks, argv, {{"DDP_WORKER_ON_GPU", "1"}}).wait_all_good();
  }
}

}  // namespace

TEST_CASE("the library's promises hold on GPUs, over NCCL", "[gpu]") {
  const int gpus = gpus_or_skip();
  if (gpus == 0) return;
  const std::string scenario =
      GENERATE("sync-batch-norm", "conversion", "outputs", "gradients", "buffers", "scaler", "half", "batches");
  INFO(scenario);
  works_on_gpus(gpus, {scenario});
}

TEST_CASE("a bad loss on one of two GPUs costs both of them a step", "[gpu]") {
  const int gpus = gpus_or_skip();
  if (gpus == 0) return;
  if (gpus == 1) {
    WARN("skipped: this machine shows one GPU, and this takes two");
    return;
  }
  Ranks(2, {program("ddp_worker"), "bad-loss", "skip"}, {{"DDP_WORKER_ON_GPU", "1"}}).wait_all_good();
}

TEST_CASE("training on GPUs that is stopped and resumed ends with the same bits, dropout included", "[gpu]") {
  const int gpus = gpus_or_skip();
  if (gpus == 0) return;
  const std::string optimizer = GENERATE("sgd", "adam", "adamw");
  const int ranks = std::min(gpus, 2);
  const TempFolder folder;
  const auto run = [&](const std::string& name, const std::string& steps) {
    Ranks(ranks, {program("ddp_worker"), "train", folder / name, optimizer, steps}, {{"DDP_WORKER_ON_GPU", "1"}})
        .wait_all_good();
  };
  run("undisturbed.pt", "19");
  run("stopped.pt", "8");
  run("stopped.pt", "19");
  const Snapshot undisturbed = load_snapshot(folder / "undisturbed.pt");
  CHECK(differences(undisturbed, load_snapshot(folder / "stopped.pt")) == "");
  CHECK(undisturbed.rng.at(0).cuda.defined());
}

TEST_CASE("collectives over NCCL give what one process would, and move every type", "[gpu]") {
  const int gpus = gpus_or_skip();
  if (gpus == 0) return;
  for (int world = 1; world <= std::min(gpus, 2); ++world) {
    Findings findings;
    RankThreads(world, {.backend = Backend::nccl}).each([&](ProcessGroup& group) {
      reduce_everything(group, findings, nullptr);
      move_everything(group, findings);
    });
    findings.check_none();
  }
}

TEST_CASE("train takes the GPUs there are and stops and resumes with the same bits", "[gpu]") {
  const int gpus = gpus_or_skip();
  if (gpus == 0) return;
  const int ranks = std::min(gpus, 2);
  const TempFolder folder;
  run_on_gpus(ranks, {"3", "--device=cuda", "--deterministic", "--snapshot", folder / "undisturbed.pt"});
  run_on_gpus(ranks, {"1", "--deterministic", "--snapshot", folder / "resumed.pt"});
  CHECK_THAT(run_on_gpus(ranks, {"3", "--deterministic", "--snapshot", folder / "resumed.pt"}).out,
             Contains("1 of 3 epochs done"));
  const Snapshot undisturbed = load_snapshot(folder / "undisturbed.pt");
  CHECK(differences(undisturbed, load_snapshot(folder / "resumed.pt")) == "");
  CHECK(undisturbed.rng.at(0).cuda.defined());
}

TEST_CASE("vgg11_bn with torchvision's head trains deterministically on a GPU, twice to the same bits", "[gpu]") {
  if (gpus_or_skip() == 0) return;
  const TempFolder folder;
  for (const char* name : {"one.pt", "two.pt"})
    run_on_gpus(1, {"1", "--dataset=synthetic", "--set=data.samples=32", "--model=vgg11_bn", "--head=imagenet",
                    "--set=model.width_divisor=32", "--device=cuda", "--deterministic", "--snapshot", folder / name});
  CHECK(differences(load_snapshot(folder / "one.pt"), load_snapshot(folder / "two.pt")) == "");
}

// The rates are floats, as those on the GPU are.
TEST_CASE("a run whose steps a CUDA graph repeats ends with the bits of one without, resumed or not", "[gpu]") {
  const int gpus = gpus_or_skip();
  if (gpus == 0) return;
  const std::vector<std::vector<std::string>> runs{
      {"--lr=0.0625", "--batch-size=48"},
      {"--optimizer=adam", "--lr=0.0078125", "--precision=fp16"},
      {"--model=resnet18", "--set=model.width_divisor=8", "--lr=0.0625", "--precision=bf16", "--channels-last",
       "--clip-norm=1", "--sync-bn"},
      {"--model=gpt", "--dropout=0.1", "--lr=0.00390625", "--set=data.stride=16"}};
  for (const std::vector<std::string>& words : runs) {
    INFO(words.front() << " " << words.back());
    const TempFolder folder;
    const auto train = [&](const std::string& epochs, const std::string& name, const std::string& more) {
      std::vector<std::string> all{epochs, "--device=cuda", "--deterministic", more, "--snapshot", folder / name};
      all.insert(all.end(), words.begin(), words.end());
      run_on_gpus(std::min(gpus, 2), all);
    };
    train("3", "eager.pt", "--fused");
    train("3", "graph.pt", "--cuda-graph");
    train("2", "resumed.pt", "--cuda-graph");
    train("3", "resumed.pt", "--cuda-graph");
    const Snapshot eager = load_snapshot(folder / "eager.pt");
    CHECK(differences(eager, load_snapshot(folder / "graph.pt")) == "");
    CHECK(differences(eager, load_snapshot(folder / "resumed.pt")) == "");
  }
}

TEST_CASE("a CUDA graph repeats what was recorded, with new inputs and new random numbers", "[gpu]") {
  if (gpus_or_skip() == 0) return;
  use_own_stream(at::Device(at::kCUDA, 0));
  const at::Tensor input = torch::zeros({4}, at::kCUDA);
  at::Tensor sum, noise;
  const auto step = [&] {
    sum = input + 1;
    noise = torch::rand({1000}, at::kCUDA);
  };
  step();
  const auto graph = make_cuda_graph();
  graph->record(step);
  std::vector<at::Tensor> drawn;
  for (const float value : {1.F, 2.F}) {
    input.fill_(value);
    graph->replay();
    CHECK(torch::equal(sum.cpu(), torch::full({4}, value + 1)));
    drawn.push_back(noise.cpu());
  }
  CHECK_FALSE(torch::equal(drawn[0], drawn[1]));
}

TEST_CASE("a step that waits for the GPU cannot be recorded, and the GPU can still be used", "[gpu]") {
  if (gpus_or_skip() == 0) return;
  use_own_stream(at::Device(at::kCUDA, 0));
  const at::Tensor input = torch::ones({4}, at::kCUDA);
  const auto graph = make_cuda_graph();
  CHECK_THROWS(graph->record([&] { input.sum().item<float>(); }));
  CHECK(input.sum().item<float>() == 4);
}

TEST_CASE("a GPU's tensors are copied for a snapshot as they are, and into pinned memory", "[gpu]") {
  if (gpus_or_skip() == 0) return;
  c10::impl::GenericDict state(c10::StringType::get(), c10::TensorType::get());
  const at::Tensor whole = torch::randn({512, 700}, at::kCUDA);
  state.insert("dense", whole);
  state.insert("transposed", whole.t());
  state.insert("count", torch::tensor(std::int64_t{7}));
  Staging staging;
  for (const float step : {1.F, 2.F}) {
    whole.fill_(step);
    const auto copied = staging.copy(state).toGenericDict();
    CHECK(torch::equal(copied.at("dense").toTensor(), whole.cpu()));
    CHECK(torch::equal(copied.at("transposed").toTensor(), whole.t().cpu()));
    CHECK(copied.at("count").toTensor().item<int>() == 7);
    CHECK(copied.at("dense").toTensor().is_pinned());
  }
}

TEST_CASE("more workers than GPUs is one sentence", "[gpu]") {
  const int gpus = gpus_or_skip();
  if (gpus == 0) return;
  Ranks ranks(gpus + 1, {program("train")});
  const Ended end = ranks[0].wait_exit(std::chrono::seconds(60));
  CHECK(end == exited(2));
  CHECK_THAT(end.err, Contains(gpus == 1 ? "a GPU of its own for each rank"  // each might see another one
                                         : "workers on this machine but only " + std::to_string(gpus) + " GPUs"));
}
