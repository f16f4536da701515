#include <torch/cuda.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "ddprun/collectives.h"
#include "ddprun/distributed_data_parallel.h"
#include "trainer/ddp/group/gpu.h"
#include "trainer/tour/data_parallel.h"
#include "trainer/tour/tour_context.h"
#include "trainer/tour/tour_net.h"

namespace ddprun::train {
namespace {

constexpr std::int64_t kSamplesPerRank = 64, kIn = 64, kHiddenWidth = 128, kOut = 4;
constexpr int kSteps = 20, kUntimed = 2;  // the first steps take longer
constexpr std::uint64_t kSeed = 1;
constexpr double kDifferenceMax = 1e-4;  // for float sums in another order

// Results of one way to train. Losses are means over the whole batch.
struct Trained {
  std::vector<double> losses;
  at::Tensor weights;  // concatenated, on the CPU
  double ms_per_step = 0;
};

class DpVsDdp {
 public:
  explicit DpVsDdp(TourContext& context) : context_(context), batch_(kSamplesPerRank * context.world()) {
    torch::manual_seed(kSeed);  // the same samples on every rank
    inputs_ = torch::randn({kSteps, batch_, kIn}).to(context.device);
    const at::Tensor teacher = torch::randn({kIn, kOut}).to(context.device) / std::sqrt(static_cast<double>(kIn));
    targets_ = torch::matmul(inputs_, teacher).tanh();
    // Rank 0 decides for all, as ranks may see different GPUs.
    gpus_ = broadcast_object(context.device.is_cuda() ? count_gpus() : 0, 0, context.group);
  }

  void show() {
    std::optional<Trained> whole;
    if (context_.is_main()) whole = gpus_ >= 2 ? train_data_parallel() : train_alone();
    barrier(context_.group);  // the other ranks would use its cores
    const Trained ddp = train_ddp();
    const double max_difference = largest_difference_between_ranks(ddp.weights);
    if (whole) report(*whole, ddp, max_difference);
  }

 private:
  std::shared_ptr<TourNet> new_net() const {
    torch::manual_seed(kSeed);
    auto net = std::make_shared<TourNet>(kIn, kHiddenWidth, kOut);
    net->to(context_.device);
    return net;
  }

  double time_now_ms() const {
    if (context_.device.is_cuda()) torch::cuda::synchronize(context_.device.index());
    const std::chrono::duration<double, std::milli> since = std::chrono::steady_clock::now().time_since_epoch();
    return since.count();
  }

  static at::Tensor all_weights(const TourNet& net) {
    std::vector<at::Tensor> parts;
    for (const auto& parameter : net.parameters()) parts.push_back(parameter.detach().flatten().to(at::kCPU));
    return torch::cat(parts);
  }

  // `forward` returns the output for a part of a step's batch, from row `begin` on.
  template <class Forward>
  Trained train(TourNet& net, std::int64_t begin, std::int64_t rows, const Forward& forward) const {
    torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    std::vector<at::Tensor> losses;
    double from = 0;
    for (int step = 0; step < kSteps; ++step) {
      if (step == kUntimed) from = time_now_ms();
      optimizer.zero_grad();
      const at::Tensor output = forward(inputs_[step].narrow(0, begin, rows));
      const at::Tensor loss = torch::mse_loss(output, targets_[step].narrow(0, begin, rows));
      loss.backward();
      optimizer.step();
      losses.push_back(loss.detach());
    }
    const double ms = (time_now_ms() - from) / (kSteps - kUntimed);
    const at::Tensor row = torch::stack(losses).to(at::kCPU).to(at::kDouble);
    return {{row.data_ptr<double>(), row.data_ptr<double>() + row.numel()}, all_weights(net), ms};
  }

  Trained train_alone() const {
    const auto net = new_net();
    return train(*net, 0, batch_, [&](const at::Tensor& input) { return net->forward(input); });
  }

  Trained train_data_parallel() const {
    std::vector<at::Device> devices{context_.device};  // the net's own first
    for (int i = 0; i < gpus_; ++i)
      if (i != context_.device.index()) devices.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(i));
    const auto net = new_net();
    return train(*net, 0, batch_, [&](const at::Tensor& input) { return data_parallel_forward(net, input, devices); });
  }

  Trained train_ddp() const {
    const auto net = new_net();
    DistributedDataParallel<TourNet> ddp(net, {}, context_.group);
    auto trained = train(*net, kSamplesPerRank * context_.rank(), kSamplesPerRank,
                         [&](const at::Tensor& input) { return ddp.forward(input); });
    const at::Tensor means = torch::tensor(trained.losses, torch::kDouble).to(context_.device);
    all_reduce(means, ReduceOp::avg, context_.group);
    const at::Tensor row = means.to(at::kCPU);
    trained.losses.assign(row.data_ptr<double>(), row.data_ptr<double>() + row.numel());
    return trained;
  }

  double largest_difference_between_ranks(const at::Tensor& weights) const {
    const at::Tensor own = weights.to(context_.device), rank_0s = own.clone();
    broadcast(rank_0s, 0, context_.group);
    const at::Tensor difference = (own - rank_0s).abs().max();
    all_reduce(difference, ReduceOp::max, context_.group);
    return difference.item<double>();
  }

  std::string description() const {
    const std::string rows = std::to_string(batch_), part = std::to_string(kSamplesPerRank);
    std::string one = "One process trains on each step's " + rows + " samples";
    if (gpus_ >= 2)
      one += ", by its " + std::to_string(gpus_) + " GPUs (torch::nn::parallel::data_parallel)";
    else if (context_.world() > 1)
      one += "; the others wait";
    const std::string many = context_.world() == 1
                                 ? "Then the same process does it by DistributedDataParallel"
                                 : "Then " + std::to_string(context_.world()) + " ranks with " + part +
                                       " of these samples each do it by DistributedDataParallel";
    return one + ".\n" + many + ".\nBoth begin with the same weights and take " + std::to_string(kSteps) + " steps.\n";
  }

  void report(const Trained& whole, const Trained& ddp, double between_ranks) {
    const std::string name = gpus_ >= 2 ? "data_parallel" : "one process";
    context_.say(description());
    std::vector<std::vector<std::string>> rows{{"loss", name, "DDP"}};
    double losses = 0;
    for (std::size_t i = 0; i < kSteps; ++i) {
      losses = std::max(losses, std::abs(whole.losses[i] - ddp.losses[i]));
      if (i == 0 || (i + 1) % 5 == 0)
        rows.push_back({"step " + std::to_string(i + 1), decimal(whole.losses[i], 4), decimal(ddp.losses[i], 4)});
    }
    context_.say(table(rows));
    const double weights = (whole.weights - ddp.weights).abs().max().item<double>();
    say_difference("losses", losses);
    say_difference("weights", weights);
    // Exactly 0: the ranks must have the same bits.
    if (between_ranks == 0)
      context_.say("Equal: the ranks' weights, bit for bit.");
    else
      context_.report_error("the ranks' weights differ by " + scientific(between_ranks) + ".");
    context_.say("");
    context_.say(
        table({{"ms per step", name, "DDP"}, {"", decimal(whole.ms_per_step, 2), decimal(ddp.ms_per_step, 2)}}) +
        "  The net is small: what DDP gains shows with larger ones, and where each rank has a GPU or cores of "
        "its own.");
  }

  static std::string scientific(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1e", value);
    return text;
  }

  void say_difference(const std::string& what, double value) {
    const std::string text = "the largest difference of the " + what + " is " + scientific(value);
    if (value <= kDifferenceMax)  // false for NaN
      context_.say("Equal: " + text + ", where rounding explains up to " + scientific(kDifferenceMax) + ".");
    else
      context_.report_error(text + ", more than rounding explains (" + scientific(kDifferenceMax) + ").");
  }

  TourContext& context_;
  const std::int64_t batch_;
  at::Tensor inputs_, targets_;  // [steps, batch, in or out]
  int gpus_ = 0;
};

}  // namespace

void show_dp_vs_ddp(TourContext& context) { DpVsDdp(context).show(); }

}  // namespace ddprun::train
