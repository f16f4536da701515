// The tutorial's ConvNet for MNIST, for any image size; the same module in Python has the same names in its state_dict.
#include <torch/torch.h>

#include "trainer/models/makers.h"

namespace ddprun::train {
namespace {

namespace nn = torch::nn;

class ConvNet : public Model {
 public:
  explicit ConvNet(const ModelSpec& spec) {
    layer1_ = register_module("layer1", layer(spec.channels, 16));
    layer2_ = register_module("layer2", layer(16, 32));
    fc_ = register_module("fc", nn::Linear(32 * (spec.height / 4) * (spec.width / 4), spec.classes));
  }

  at::Tensor forward(const at::Tensor& images) override {
    return fc_->forward(layer2_->forward(layer1_->forward(images)).flatten(1));
  }

  // In training, batch norm uses the batch's own mean and variance.
  bool training_reads_buffers() const override { return false; }

 private:
  static nn::Sequential layer(std::int64_t from, std::int64_t to) {
    return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(from, to, 5).padding(2)), nn::BatchNorm2d(to), nn::ReLU(),
                          nn::MaxPool2d(2));
  }

  nn::Sequential layer1_{nullptr}, layer2_{nullptr};
  nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_convnet(const ModelSpec& spec) { return std::make_shared<ConvNet>(spec); }

}  // namespace ddprun::train
