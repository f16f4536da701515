// A run's steps by a graph, on the CPU: the stand-in repeats operations as a CUDA graph repeats kernels.
#include "trainer/loop/graphed_steps.h"

#include <torch/torch.h>

#include "ddprun/process_group.h"
#include "ddprun/worker.h"
#include "tests/support/test.h"
#include "tests/trainer/recorded_operations.h"
#include "trainer/ddp/snapshot/optimizer_state.h"
#include "trainer/loop/step.h"
#include "trainer/loop/transfer.h"

namespace {

constexpr int kEpochs = 3;

// Takes the step again each time.
class Again : public StepGraph {
 public:
  void record(const std::function<void()>& step) override { step_ = step; }
  void replay() override { step_(); }

 private:
  std::function<void()> step_;
};

struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> tensors;  // weights and buffers
  std::vector<double> counts;       // of steps, by weight: Adam's
};

std::vector<double> counts_of(const torch::optim::Optimizer& optimizer) {
  std::vector<double> counts;
  for (const auto& item : optimizer_state(optimizer).at("state").toGenericDict())
    if (const auto state = item.value().toGenericDict(); state.contains("step"))
      counts.push_back(state.at("step").toTensor().item<double>());
  return counts;
}

// Leaves no group behind, also after an exception.
struct GroupEnd {
  ~GroupEnd() { destroy_process_group(); }
};

// Three epochs, each of seven whole batches and a smaller one.
Trained train_epochs(Words words, std::unique_ptr<StepGraph> graph) {
  static Worker worker;
  torch::set_num_threads(1);
  const TempFolder folder;
  words.insert(words.end(), {"--dataset=synthetic", "--set=data.samples=38", "--batch-size=5", "--device=cpu",
                             "--fused", "--snapshot=" + std::string(folder / "s.pt")});
  const CommandLine config = read_command_line(words, [](const std::string&) { return ""; });
  REQUIRE_FALSE(config.early_exit);
  const RankEnv env = read_rank_env({}).env;
  Progress progress(stdout, Progress::Style::silent, 0);
  Trained trained;
  const GroupEnd end;
  {
    Kept kept;
    Run run = begin_run(config, env, at::kCPU, progress, worker, kept);
    if (graph)
      run.graphed = std::make_unique<GraphedSteps>(std::move(graph), dynamic_cast<TakesGraph&>(*run.optimizer));
    for (; run.at.epochs_run < kEpochs; ++run.at.epochs_run) {
      train_mode(*run.model);
      run.sampler->set_epoch(run.at.epochs_run);
      for (EpochBatches batches(run); batches.left() > 0; ++run.at.step)
        trained.losses.push_back(train_step(run, batches).loss.item<double>());
    }
    for (const auto& list : {run.model->parameters(), run.model->buffers()})
      for (const at::Tensor& one : list) trained.tensors.push_back(one.detach().clone());
    trained.counts = counts_of(*run.optimizer);
  }
  return trained;
}

void check_equal(const Trained& one, const Trained& other) {
  CHECK(one.losses == other.losses);
  CHECK(one.counts == other.counts);
  REQUIRE(one.tensors.size() == other.tensors.size());
  for (std::size_t i = 0; i < one.tensors.size(); ++i) {
    INFO(i);
    CHECK(torch::equal(one.tensors[i], other.tensors[i]));
  }
}

}  // namespace

TEST_CASE("a graph repeats all of a step: it ends with the bits of steps that the host takes anew", "[graphed_steps]") {
  const Words steps{"--schedule=linear", "--schedule-unit=step", "3"};
  const std::vector<Words> runs{
      {"--clip-norm=0.5", "data.height=8", "data.width=8"},
      {"--optimizer=adam", "--precision=bf16", "--weight-decay=0.01", "data.height=8", "data.width=8"},
      {"--optimizer=adamw", "--precision=fp16", "--set=training.init_scale=1e12", "--clip-value=0.01", "data.height=8",
       "data.width=8"},
      {"--model=resnet18", "--set=model.width_divisor=32", "--channels-last", "--momentum=0", "data.height=8",
       "data.width=8"},
      {"--optimizer=adamw", "--model=vgg11_bn", "--head=imagenet", "--set=model.width_divisor=64"}};
  for (Words words : runs) {
    INFO(words.front() << " " << words.back());
    words = with(words, steps);
    int replays = 0;
    const Trained graphed = train_epochs(words, std::make_unique<RecordedOperations>(replays));
    CHECK(replays == kEpochs * 7 - GraphPlan::kWarmUp);
    check_equal(graphed, train_epochs(words, std::make_unique<Again>()));
  }
}

// The rate is a float on the device, and a double on the host: a rate that is both makes no difference.
TEST_CASE("numbers on the device change no bit of a run without a graph", "[graphed_steps]") {
  for (Words words : {Words{"--lr=0.0625"}, Words{"--optimizer=adam", "--lr=0.0078125"},
                      Words{"--optimizer=adamw", "--precision=fp16", "--lr=0.0078125"}}) {
    INFO(words.back());
    words.insert(words.end(), {"3", "data.height=8", "data.width=8"});
    check_equal(train_epochs(words, std::make_unique<Again>()), train_epochs(words, nullptr));
  }
}

TEST_CASE("a step that cannot be recorded is told in one sentence", "[graphed_steps]") {
  int replays = 0;
  const at::Tensor weight = torch::ones({2}).requires_grad_();
  SGD optimizer({weight}, torch::optim::SGDOptions(0.5), StepMode::fused);
  GraphedSteps graphed(std::make_unique<RecordedOperations>(replays), optimizer);
  const auto step = [&](const Batch& batch) {
    const at::Tensor loss = (weight * batch.inputs).sum();
    if (loss.item<double>() > 1e9) return loss;
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
  const auto take = [&] {
    weight.mutable_grad().reset();
    graphed.take({torch::ones({2}), torch::ones({2})}, step);
  };
  for (int i = 0; i < GraphPlan::kWarmUp; ++i) take();
  CHECK_THROWS_WITH(take(),
                    "cannot record a step as a CUDA graph: operation not permitted when stream is capturing. Leave out "
                    "--cuda-graph.");
}
