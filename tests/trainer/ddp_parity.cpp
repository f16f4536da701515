// DistributedDataParallel in each of its modes; ddp_parity.py, its peer, says what they are, and prints the same lines.
#include <torch/torch.h>
#include <zlib.h>

#include <cstdio>
#include <string>
#include <vector>

#include "ddprun/amp.h"
#include "ddprun/clip_grad.h"
#include "ddprun/distributed_data_parallel.h"
#include "tests/trainer/ddp_worker.h"

namespace {

constexpr int kSteps = 20;
constexpr int kBatch = 6;
constexpr double kMaxNorm = 0.5;

struct NetImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& images, int extra_times) {
    at::Tensor x = torch::max_pool2d(torch::relu(norm(conv(images))), 2).flatten(1);
    x = torch::relu(first(x));
    for (int i = 0; i < extra_times; ++i) x = torch::relu(extra(x));
    return last(x);
  }
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).padding(1)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(8));
  torch::nn::Linear first = register_module("first", torch::nn::Linear(8 * 4 * 4, 32));
  torch::nn::Linear extra = register_module("extra", torch::nn::Linear(32, 32));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(32, 10));
};
TORCH_MODULE(Net);

const std::vector<std::string> kModes{"plain",     "small-buckets", "bucket-views", "accumulate",    "accumulate-views",
                                      "unused",    "unused-views",  "static",       "static-unused", "no-buffers",
                                      "fp16-hook", "bf16-hook",     "bf16",         "clip"};

ddprun::DdpOptions options_of(const std::string& mode) {
  ddprun::DdpOptions options;
  if (mode == "small-buckets" || mode == "bucket-views" || mode == "unused-views") options.bucket_bytes = 4096;
  options.gradient_as_bucket_view = mode.ends_with("-views");
  options.find_unused_parameters = mode.starts_with("unused");
  options.static_graph = mode.starts_with("static");
  options.broadcast_buffers = mode != "no-buffers";
  return options;
}

int extra_of(const std::string& mode, int step, int rank) {
  if (mode.starts_with("unused")) return (step + rank) % 3 == 0;
  return mode == "static" ? 2 : mode == "static-unused" ? 0 : 1;
}

void train(const std::string& mode, const ddprun::ProcessGroup& group) {
  const int rank = group.rank();
  const at::Device device = group.device();
  torch::manual_seed(7 + rank);
  Net net;
  net->to(device);
  ddprun::DistributedDataParallel ddp(net, options_of(mode), group);
  if (mode == "fp16-hook") ddp.register_comm_hook(ddprun::fp16_compress_hook());
  if (mode == "bf16-hook") ddp.register_comm_hook(ddprun::bf16_compress_hook());
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const int parts = mode.starts_with("accumulate") ? 3 : 1;
  for (int step = 0; step < kSteps; ++step) {
    ddp.zero_grad();
    at::Tensor loss;
    for (int part = 0; part < parts; ++part) {
      torch::manual_seed(10'000 + 1000 * step + 100 * part + rank);
      const at::Tensor images = torch::randn({kBatch, 1, 8, 8}).to(device);
      const at::Tensor labels = torch::randint(10, {kBatch}, torch::kLong).to(device);
      const auto pause = ddp.no_sync(part + 1 < parts);
      at::Tensor scores;
      {
        const ddprun::Autocast autocast(device.type(), at::kBFloat16, mode == "bf16");
        scores = ddp.forward(images, extra_of(mode, step, rank));
      }
      loss = torch::cross_entropy_loss(scores.to(torch::kFloat), labels);
      loss.backward();
    }
    if (mode == "clip") {
      const double norm = ddprun::clip_grad_norm(net->parameters(), kMaxNorm).item<double>();
      if (rank == 0) std::printf("%s step %d norm %.9g\n", mode.c_str(), step, norm);
    }
    optimizer.step();
    if (rank == 0) std::printf("%s step %d loss %.9g\n", mode.c_str(), step, loss.item<double>());
  }
  if (rank != 0) return;
  uLong checksum = 0;
  const auto add = [&](const at::Tensor& tensor) {
    const at::Tensor bytes = tensor.detach().cpu().contiguous();
    checksum = crc32(checksum, static_cast<const Bytef*>(bytes.data_ptr()), static_cast<uInt>(bytes.nbytes()));
  };
  for (const at::Tensor& parameter : net->parameters()) add(parameter);
  for (const at::Tensor& buffer : net->buffers()) add(buffer);
  std::printf("%s weights %08lx\n", mode.c_str(), checksum);
}

}  // namespace

namespace ddprun::test {

void print_parity(const ProcessGroup& group, const Words& modes) {
  if (group.device().is_cuda()) at::globalContext().setDeterministicCuDNN(true);
  for (const std::string& mode : modes.empty() ? kModes : modes) train(mode, group);
}

}  // namespace ddprun::test
