// The models of `train` by name. To add one: its file here, its maker in makers.h and in the table of models.cpp, its
// line in model_names.cpp, and the checks of its sizes in model_spec.cpp.
#pragma once
#include <torch/nn/module.h>

#include <memory>

#include "trainer/models/model_spec.h"

namespace ddprun::train {

class Model : public torch::nn::Module {
 public:
  // inputs -> scores, in the shapes of the model's ModelInput (model_names.h)
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;
  // Whether a forward pass in training depends on buffers. If not, nothing reads them between two evaluations.
  virtual bool training_reads_buffers() const { return true; }
};

// On the CPU, in training mode. Weights are drawn from the default generator as by the same modules in Python:
// torch::manual_seed determines them, bit for bit. Throws the error of problem_with(spec).
std::shared_ptr<Model> make_model(const ModelSpec& spec);

}  // namespace ddprun::train
