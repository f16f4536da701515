// torchvision's vgg11_bn: its names, its order and its first weights (torchvision/models/vgg.py of 0.26). The small
// head is one linear layer, `classifier`, on the mean over all pixels.
#include <torch/torch.h>

#include "trainer/models/deterministic_pool.h"
#include "trainer/models/initial_weights.h"
#include "trainer/models/makers.h"

namespace ddprun::train {
namespace {

namespace nn = torch::nn;

constexpr int kHalve = 0;  // marks a pooling layer in the list of channels
constexpr int kLayers[]{64, kHalve, 128, kHalve, 256, 256, kHalve, 512, 512, kHalve, 512, 512, kHalve};
constexpr int kFeatures = 512, kHidden = 4096;

nn::Sequential convolutions(const ModelSpec& spec) {
  nn::Sequential layers;
  std::int64_t from = spec.channels;
  for (const int channels : kLayers) {
    if (channels == kHalve) {
      layers->push_back(nn::MaxPool2d(2));
      continue;
    }
    const std::int64_t to = channels / spec.width_divisor;
    layers->push_back(nn::Conv2d(nn::Conv2dOptions(from, to, 3).padding(1)));
    layers->push_back(nn::BatchNorm2d(to));
    layers->push_back(nn::ReLU(nn::ReLUOptions(true)));
    from = to;
  }
  return layers;
}

// For outputs of the convolutions of `side` by `side`.
nn::Sequential imagenet_head(const ModelSpec& spec, std::int64_t side) {
  const std::int64_t hidden = kHidden / spec.width_divisor;
  const nn::ReLUOptions in_place(true);
  return nn::Sequential(nn::Linear(kFeatures / spec.width_divisor * side * side, hidden), nn::ReLU(in_place),
                        nn::Dropout(0.5), nn::Linear(hidden, hidden), nn::ReLU(in_place), nn::Dropout(0.5),
                        nn::Linear(hidden, spec.classes));
}

class Vgg : public Model {
 public:
  explicit Vgg(const ModelSpec& spec) : side_(spec.head == "imagenet" ? 7 : 1) {
    features_ = register_module("features", convolutions(spec));
    if (side_ == 1)
      classifier_->push_back(register_module("classifier", nn::Linear(kFeatures / spec.width_divisor, spec.classes)));
    else
      classifier_ = register_module("classifier", imagenet_head(spec, side_));
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* layer = module->as<nn::Conv2d>()) init_for_relu(*layer);
      if (auto* layer = module->as<nn::Linear>()) init_small(*layer);
    }
  }

  at::Tensor forward(const at::Tensor& images) override {
    return classifier_->forward(avg_pool_to(features_->forward(images), side_).flatten(1));
  }

  // In training, batch norm uses the batch's own mean and variance.
  bool training_reads_buffers() const override { return false; }

 private:
  const std::int64_t side_;
  nn::Sequential features_{nullptr};
  nn::Sequential classifier_;
};

}  // namespace

std::shared_ptr<Model> make_vgg11_bn(const ModelSpec& spec) { return std::make_shared<Vgg>(spec); }

}  // namespace ddprun::train
