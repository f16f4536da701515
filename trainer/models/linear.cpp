// One linear layer, the model of PyTorch's DDP tutorial: its state_dict has weight and bias, as torch.nn.Linear's.
#include <torch/torch.h>

#include "trainer/models/makers.h"

namespace ddprun::train {
namespace {

class Linear : public Model {
 public:
  explicit Linear(const ModelSpec& spec) {
    const torch::nn::Linear drawn(spec.features, spec.outputs);
    weight_ = register_parameter("weight", drawn->weight);
    bias_ = register_parameter("bias", drawn->bias);
  }

  at::Tensor forward(const at::Tensor& features) override { return torch::linear(features, weight_, bias_); }

  bool training_reads_buffers() const override { return false; }  // there are none

 private:
  at::Tensor weight_, bias_;
};

}  // namespace

std::shared_ptr<Model> make_linear(const ModelSpec& spec) { return std::make_shared<Linear>(spec); }

}  // namespace ddprun::train
