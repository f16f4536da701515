#include "trainer/models.h"

#include <torch/torch.h>

#include <map>

#include "rendezvous/error.h"

namespace ddprun {
namespace {

namespace nn = torch::nn;

// The tutorial's ConvNet for MNIST, for any image size; Python's module of the same shape has the same names in its
// state_dict.
class ConvNet : public Model {
 public:
  explicit ConvNet(const ImageShape& shape) {
    layer1_ = register_module("layer1", layer(shape.channels, 16));
    layer2_ = register_module("layer2", layer(16, 32));
    fc_ = register_module("fc", nn::Linear(32 * (shape.height / 4) * (shape.width / 4), shape.classes));
  }

  at::Tensor forward(const at::Tensor& images) override {
    return fc_->forward(layer2_->forward(layer1_->forward(images)).flatten(1));
  }

  // Batch norm trains on the batch's own mean and variance.
  bool training_reads_buffers() const override { return false; }

 private:
  static nn::Sequential layer(std::int64_t from, std::int64_t to) {
    return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(from, to, 5).padding(2)), nn::BatchNorm2d(to), nn::ReLU(),
                          nn::MaxPool2d(2));
  }

  nn::Sequential layer1_{nullptr}, layer2_{nullptr};
  nn::Linear fc_{nullptr};
};

std::shared_ptr<Model> make_convnet(const ImageShape& shape) {
  if (shape.height < 4 || shape.width < 4)
    throw Error("cannot build the model convnet",
                "it halves its images twice and these are only " + std::to_string(shape.height) + " by " +
                    std::to_string(shape.width) + " pixels",
                "Give it images of at least 4 by 4.");
  return std::make_shared<ConvNet>(shape);
}

using Maker = std::shared_ptr<Model> (*)(const ImageShape&);
const std::map<std::string, Maker> kModels{{"convnet", make_convnet}};

}  // namespace

std::shared_ptr<Model> make_model(const std::string& name, const ImageShape& shape) {
  const auto it = kModels.find(name);
  if (it != kModels.end()) return it->second(shape);
  std::string known;
  for (const auto& [key, maker] : kModels) known += (known.empty() ? "" : ", ") + key;
  throw Error("cannot build the model " + name, "there is none of that name",
              "Pass --model with one of: " + known + ".");
}

}  // namespace ddprun
