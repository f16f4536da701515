// torchvision's ResNets: their names, their order and their first weights (torchvision/models/resnet.py of 0.26).
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
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

struct Layer {
  std::int64_t from, to;
  Kernel kernel;
};

// A network of the family, by its blocks in layer1 to layer4.
struct Layout {
  const char* name;
  std::array<int, 4> blocks;
  bool bottleneck;  // three convolutions in a block, the last one four times as wide, instead of two
};

constexpr Layout kLayouts[]{{"resnet18", {2, 2, 2, 2}, false},
                            {"resnet34", {3, 4, 6, 3}, false},
                            {"resnet50", {3, 4, 6, 3}, true},
                            {"resnet101", {3, 4, 23, 3}, true},
                            {"resnet152", {3, 8, 36, 3}, true}};

const Layout& layout_of(const std::string& name) {
  return *std::find_if(std::begin(kLayouts), std::end(kLayouts), [&](const Layout& one) { return one.name == name; });
}

std::int64_t widening(bool bottleneck) { return bottleneck ? 4 : 1; }

std::vector<Layer> layers_of_block(bool bottleneck, std::int64_t from, std::int64_t width, std::int64_t stride) {
  if (!bottleneck) return {{from, width, {3, stride}}, {width, width, {3, 1}}};
  return {{from, width, {1, 1}}, {width, width, {3, stride}}, {width, width * widening(true), {1, 1}}};
}

class ResidualBlockImpl : public nn::Module {
 public:
  explicit ResidualBlockImpl(const std::vector<Layer>& layers, std::int64_t stride) {
    const std::int64_t from = layers.front().from, to = layers.back().to;
    // Initialised first and registered last, as in torchvision.
    if (stride != 1 || from != to) downsample_ = nn::Sequential(convolution(from, to, {1, stride}), SyncBatchNorm(to));
    for (const Layer& layer : layers) {
      const std::string number = std::to_string(convolutions_.size() + 1);
      convolutions_.push_back(register_module("conv" + number, convolution(layer.from, layer.to, layer.kernel)));
      norms_.push_back(register_module("bn" + number, SyncBatchNorm(layer.to)));
    }
    if (downsample_) register_module("downsample", downsample_);
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor output = input;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      output = norms_[i]->forward(convolutions_[i]->forward(output));
      if (i + 1 < convolutions_.size()) output.relu_();
    }
    output += downsample_ ? downsample_->forward(input) : input;
    return output.relu_();
  }

 private:
  std::vector<nn::Conv2d> convolutions_;
  std::vector<SyncBatchNorm> norms_;
  nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(ResidualBlock);

constexpr std::int64_t kStem = 64;

class ResNet : public Model {
 public:
  explicit ResNet(const ModelSpec& spec) : pools_(spec.head == "imagenet") {
    const Layout& layout = layout_of(spec.name);
    std::int64_t width = kStem / spec.width_divisor, from = width;
    conv1_ = register_module("conv1", convolution(spec.channels, width, pools_ ? Kernel{7, 2} : Kernel{3, 1}));
    bn1_ = register_module("bn1", SyncBatchNorm(width));
    for (const int blocks : layout.blocks) {
      nn::Sequential layer;
      for (int block = 0; block < blocks; ++block) {
        const std::int64_t stride = block == 0 && !layers_.empty() ? 2 : 1;
        layer->push_back(ResidualBlock(layers_of_block(layout.bottleneck, from, width, stride), stride));
        from = width * widening(layout.bottleneck);
      }
      layers_.push_back(register_module("layer" + std::to_string(layers_.size() + 1), layer));
      width *= 2;
    }
    fc_ = register_module("fc", nn::Linear(from, spec.classes));
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

std::shared_ptr<Model> make_resnet(const ModelSpec& spec) { return std::make_shared<ResNet>(spec); }

}  // namespace ddprun::train
