// Learns y = 3x - 1 on all ranks of a job, and continues from its last epoch after a failure:
// ddprun --nproc_per_node=2 build/line
#include <ddprun/collectives.h>
#include <ddprun/distributed_data_parallel.h>
#include <ddprun/sampler.h>
#include <ddprun/snapshot.h>
#include <torch/torch.h>

#include <iostream>
#include <nlohmann/json.hpp>

struct Line : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return linear(x); }
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(1, 1));
};

int main() try {
  const auto group = ddprun::init_process_group();
  auto line = std::make_shared<Line>();
  line->to(group.device());
  torch::optim::SGD optimizer(line->parameters(), 0.1);
  ddprun::Snapshots snapshots({.path = "line.pt"}, group);
  const ddprun::TrainingState state{.model = *line, .optimizer = &optimizer};
  auto at = snapshots.resume(state).value_or(ddprun::Resumed{}).at;
  if (group.is_main_process()) std::cout << "from epoch " << at.epochs_run << std::endl;
  ddprun::DistributedDataParallel ddp(line, {}, group);  // begins with rank 0's weights

  const at::Tensor x = torch::linspace(-1, 1, 200, group.device()).unsqueeze(1), y = 3 * x - 1;
  for (; at.epochs_run < 100; snapshots.save(state, {.at = at})) {
    const auto indices = ddprun::epoch_indices(
        {.dataset_size = x.size(0), .rank = group.rank(), .world_size = group.world_size()}, at.epochs_run++);
    for (const at::Tensor& batch : torch::tensor(indices).to(group.device()).split(10)) {
      ddp.zero_grad();
      torch::mse_loss(ddp.forward(x.index_select(0, batch)), y.index_select(0, batch)).backward();
      optimizer.step();
      ++at.step;
    }
    if (group.is_main_process()) std::cout << "epoch " << at.epochs_run << std::endl;
  }
  snapshots.finish();
  const double bias = line->linear->bias.item<double>();
  const auto biases = ddprun::all_gather_object({{"rank", group.rank()}, {"bias", bias}}, group);
  if (group.is_main_process()) std::cout << nlohmann::json(biases) << "\n";
  ddprun::destroy_process_group();
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
