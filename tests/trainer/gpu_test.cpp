// `train` and the library over NCCL, where there are GPUs. Without one every test says so and is skipped.
#include <torch/torch.h>

#include "tests/support/test.h"
#include "tests/trainer/collectives_check.h"
#include "tests/trainer/gpus_or_skip.h"
#include "tests/trainer/rank_threads.h"
#include "tests/trainer/ranks.h"
#include "tests/trainer/snapshot_compare.h"
#include "trainer/ddp/snapshot/staging.h"

namespace {

// Two ranks share a GPU where there is only one. DDPRUN_GPU_TESTS_RANKS=1 leaves them out.
int ranks_max() {
  const char* chosen = std::getenv("DDPRUN_GPU_TESTS_RANKS");
  return chosen && std::string(chosen) == "1" ? 1 : 2;
}

Ranks start_on_gpus(int ranks, Words argv, Environment env = {}) {
  argv.front() = program(argv.front());
  if (ranks > count_gpus()) env.merge(each_on_its_own_node());
  return Ranks(ranks, argv, env);
}

// False where NCCL refuses two ranks on one GPU, which is no failure of ours.
bool all_end_well(Ranks& ranks) {
  const std::vector<Ended> ends = ranks.wait_all();
  for (const Ended& end : ends)
    if (end.err.find("Duplicate GPU") != std::string::npos) {
      WARN("skipped: this NCCL refuses two ranks on one GPU");
      return false;
    }
  for (const Ended& end : ends) CHECK(end == exited(0));
  return true;
}

// Several at the same time, as most of their time is the start.
bool all_end_well(std::vector<Ranks>& started) {
  bool all = true;
  for (Ranks& one : started) all = all_end_well(one) && all;
  return all;
}

bool run_on_gpus(int ranks, const std::vector<Words>& runs) {
  std::vector<Ranks> started;
  for (const Words& arguments : runs) started.push_back(start_on_gpus(ranks, with({"train"}, arguments)));
  return all_end_well(started);
}

// Scenarios of ddp_worker with one rank and with two, at the same time.
void work_on_gpus(const std::vector<Words>& scenarios, int ranks_min = 1) {
  if (gpus_or_skip() == 0) return;
  if (ranks_min > ranks_max()) {
    WARN("skipped: DDPRUN_GPU_TESTS_RANKS is 1, and this takes two");
    return;
  }
  std::vector<std::pair<std::string, Ranks>> started;
  for (const Words& scenario : scenarios)
    for (int ranks = ranks_min; ranks <= ranks_max(); ++ranks) {
      started.emplace_back(scenario.front() + " with " + std::to_string(ranks),
                           start_on_gpus(ranks, with({"ddp_worker"}, scenario), {{"DDP_WORKER_ON_GPU", "1"}}));
    }
  for (auto& [name, ranks] : started) {
    INFO(name);
    all_end_well(ranks);
  }
}

}  // namespace

TEST_CASE("the library averages gradients and shares buffers over NCCL", "[gpu]") {
  work_on_gpus({{"gradients"}, {"outputs"}, {"buffers"}});
}

TEST_CASE("the library's batch norm over all ranks holds over NCCL", "[gpu]") {
  work_on_gpus({{"sync-batch-norm"}, {"conversion"}});
}

TEST_CASE("the library's scaler and half precision hold on GPUs", "[gpu]") { work_on_gpus({{"scaler"}, {"half"}}); }

TEST_CASE("the library's batches are pinned, and arrive on GPUs whole", "[gpu]") { work_on_gpus({{"batches"}}); }

TEST_CASE("a bad loss of one rank on GPUs costs all ranks a step", "[gpu]") { work_on_gpus({{"bad-loss", "skip"}}, 2); }

TEST_CASE("collectives of two processes over NCCL give what one process would", "[gpu]") {
  work_on_gpus({{"collectives"}}, 2);
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
    CHECK(findings.wrong() == "");
  }
}

TEST_CASE("training on GPUs that is stopped and resumed ends with the same bits, dropout included", "[gpu]") {
  if (gpus_or_skip() == 0) return;
  const TempFolder folder;
  const Words optimizers{"sgd", "adam", "adamw"};
  const auto run = [&](const std::vector<std::pair<std::string, std::string>>& names_and_steps) {
    std::vector<Ranks> started;
    for (const auto& [name, steps] : names_and_steps)
      for (const std::string& optimizer : optimizers)
        started.push_back(start_on_gpus(ranks_max(),
                                        {"ddp_worker", "train", folder / (optimizer + name), optimizer, steps},
                                        {{"DDP_WORKER_ON_GPU", "1"}}));
    return all_end_well(started);
  };
  if (!run({{"-undisturbed.pt", "19"}, {"-stopped.pt", "8"}}) || !run({{"-stopped.pt", "19"}})) return;
  for (const std::string& optimizer : optimizers) {
    INFO(optimizer);
    const Snapshot undisturbed = load_snapshot(folder / (optimizer + "-undisturbed.pt"));
    CHECK(differences(undisturbed, load_snapshot(folder / (optimizer + "-stopped.pt"))) == "");
    CHECK(undisturbed.rng.at(0).cuda.defined());
  }
}

TEST_CASE("train takes the GPUs there are and stops and resumes with the same bits", "[gpu]") {
  if (gpus_or_skip() == 0) return;
  const TempFolder folder;
  if (!run_on_gpus(ranks_max(), {{"3", "--device=cuda", "--deterministic", "--snapshot", folder / "undisturbed.pt"},
                                 {"1", "--deterministic", "--snapshot", folder / "resumed.pt"}}))
    return;
  Ranks resumed = start_on_gpus(ranks_max(), {"train", "3", "--deterministic", "--snapshot", folder / "resumed.pt"});
  CHECK_THAT(resumed.wait_all_good().out, Contains("1 of 3 epochs done"));
  const Snapshot undisturbed = load_snapshot(folder / "undisturbed.pt");
  CHECK(differences(undisturbed, load_snapshot(folder / "resumed.pt")) == "");
  CHECK(undisturbed.rng.at(0).cuda.defined());
}

TEST_CASE("vgg11_bn with torchvision's head trains deterministically on a GPU, twice to the same bits", "[gpu]") {
  if (gpus_or_skip() == 0) return;
  const TempFolder folder;
  std::vector<Words> runs;
  for (const char* name : {"one.pt", "two.pt"})
    runs.push_back({"1", "--dataset=synthetic", "--set=data.samples=32", "--model=vgg11_bn", "--head=imagenet",
                    "--set=model.width_divisor=32", "--device=cuda", "--deterministic", "--snapshot", folder / name});
  run_on_gpus(1, runs);
  CHECK(differences(load_snapshot(folder / "one.pt"), load_snapshot(folder / "two.pt")) == "");
}

namespace {

// The rate is a float, as that on the GPU is.
void graph_has_bits_without(const Words& words) {
  if (gpus_or_skip() == 0) return;
  const TempFolder folder;
  const auto run = [&](const std::string& epochs, const std::string& name, const std::string& more) {
    return with({epochs, "--device=cuda", "--deterministic", more, "--snapshot", folder / name}, words);
  };
  if (!run_on_gpus(ranks_max(), {run("3", "eager.pt", "--fused"), run("3", "graph.pt", "--cuda-graph"),
                                 run("2", "resumed.pt", "--cuda-graph")}) ||
      !run_on_gpus(ranks_max(), {run("3", "resumed.pt", "--cuda-graph")}))
    return;
  const Snapshot eager = load_snapshot(folder / "eager.pt");
  CHECK(differences(eager, load_snapshot(folder / "graph.pt")) == "");
  CHECK(differences(eager, load_snapshot(folder / "resumed.pt")) == "");
}

}  // namespace

TEST_CASE("a run whose steps a CUDA graph repeats ends with the bits of one without, resumed or not", "[gpu]") {
  graph_has_bits_without({"--lr=0.0625", "--batch-size=48"});
}

TEST_CASE("a CUDA graph has the bits of a run without, with adam and fp16's scaler", "[gpu]") {
  graph_has_bits_without({"--optimizer=adam", "--lr=0.0078125", "--precision=fp16"});
}

TEST_CASE("a CUDA graph has the bits of a run without, with clipped norms and batch norm over all ranks", "[gpu]") {
  Words words{"--lr=0.0625", "--precision=bf16", "--channels-last", "--clip-norm=1", "--sync-bn"};
  if (count_gpus() >= ranks_max())  // ranks that share a GPU take turns: a hundred calls a step would take seconds
    words = with(words, {"--model=resnet18", "--set=model.width_divisor=8"});
  graph_has_bits_without(words);
}

TEST_CASE("a CUDA graph has the bits of a run without, with dropout", "[gpu]") {
  graph_has_bits_without({"--model=gpt", "--dropout=0.1", "--lr=0.00390625", "--set=data.stride=16"});
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
