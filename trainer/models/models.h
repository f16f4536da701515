// Models by name. To add one: a class in models.cpp and its line in the table there.
#pragma once
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class Model : public torch::nn::Module {
 public:
  // images [n, channels, height, width] float -> scores [n, classes]
  virtual at::Tensor forward(const at::Tensor& images) = 0;
  // Whether a forward pass in training depends on buffers. If not, nobody looks at them between two evaluations.
  virtual bool training_reads_buffers() const { return true; }
};

struct ImageShape {
  std::int64_t channels, height, width, classes;
};

// Weights are drawn from the default generator as PyTorch's own modules draw them: torch::manual_seed decides them.
// An unknown name or an image too small for the model is an Error.
std::shared_ptr<Model> make_model(const std::string& name, const ImageShape& shape);

}  // namespace ddprun
