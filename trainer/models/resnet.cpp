// torchvision's resnet18: its names, its order and its first weights (torchvision/models/resnet.py of 0.26).
#include <torch/torch.h>

#include <vector>

#include "ddprun/sync_batch_norm.h"
#include "trainer/models/initial_weights.h"
#include "trainer/models/makers.h"

namespace ddprun::train {
namespace {

namespace nn = torch::nn;

// All batch norm layers are ddprun::SyncBatchNorm, because members can be synchronized but not replaced. Before that
// they compute what BatchNorm2d does.

struct Kernel {
  std::int64_t size, stride;
};

nn::Conv2d convolution(std::int64_t from, std::int64_t to, Kernel kernel) {
  return nn::Conv2d(
      nn::Conv2dOptions(from, to, kernel.size).stride(kernel.stride).padding(kernel.size / 2).bias(false));
}

class ResidualBlockImpl : public nn::Module {
 public:
  ResidualBlockImpl(std::int64_t from, std::int64_t to, std::int64_t stride) {
    // Initialised first and registered last, as in torchvision.
    if (stride != 1 || from != to) downsample_ = nn::Sequential(convolution(from, to, {1, stride}), SyncBatchNorm(to));
    conv1_ = register_module("conv1", convolution(from, to, {3, stride}));
    bn1_ = register_module("bn1", SyncBatchNorm(to));
    conv2_ = register_module("conv2", convolution(to, to, {3, 1}));
    bn2_ = register_module("bn2", SyncBatchNorm(to));
    if (downsample_) register_module("downsample", downsample_);
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor output = bn2_->forward(conv2_->forward(bn1_->forward(conv1_->forward(input)).relu_()));
    output += downsample_ ? downsample_->forward(input) : input;
    return output.relu_();
  }

 private:
  nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  SyncBatchNorm bn1_{nullptr}, bn2_{nullptr};
  nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(ResidualBlock);

constexpr std::int64_t kStem = 64, kLast = 512;

class ResNet : public Model {
 public:
  explicit ResNet(const ModelSpec& spec) : pools_(spec.head == "imagenet") {
    const std::int64_t divisor = spec.width_divisor;
    conv1_ =
        register_module("conv1", convolution(spec.channels, kStem / divisor, pools_ ? Kernel{7, 2} : Kernel{3, 1}));
    bn1_ = register_module("bn1", SyncBatchNorm(kStem / divisor));
    std::int64_t from = kStem;
    for (const std::int64_t to : {64, 128, 256, 512}) {
      const nn::Sequential layer(ResidualBlock(from / divisor, to / divisor, to == from ? 1 : 2),
                                 ResidualBlock(to / divisor, to / divisor, 1));
      layers_.push_back(register_module("layer" + std::to_string(layers_.size() + 1), layer));
      from = to;
    }
    fc_ = register_module("fc", nn::Linear(kLast / divisor, spec.classes));
    for (const auto& module : modules(/*include_self=*/false))
      if (auto* layer = module->as<nn::Conv2d>()) init_for_relu(*layer);
  }

  at::Tensor forward(const at::Tensor& images) override {
    at::Tensor x = bn1_->forward(conv1_->forward(images)).relu_();
    if (pools_) x = torch::max_pool2d(x, 3, 2, 1);
    for (nn::Sequential& layer : layers_) x = layer->forward(x);
    return fc_->forward(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  // In training, batch norm uses the batch's own mean and variance.
  bool training_reads_buffers() const override { return false; }

 private:
  const bool pools_;
  nn::Conv2d conv1_{nullptr};
  SyncBatchNorm bn1_{nullptr};
  std::vector<nn::Sequential> layers_;  // layer1 to layer4
  nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_resnet18(const ModelSpec& spec) { return std::make_shared<ResNet>(spec); }

}  // namespace ddprun::train
