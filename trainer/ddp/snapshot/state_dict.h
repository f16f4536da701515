// Models as values in Python's layout, so that load_state_dict() of either language reads the other's.
//
// Source: Module.state_dict of PyTorch: module by module, parameters before buffers, names joined by dots.
#pragma once
#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>

#include <string>

#include "rendezvous/base/error.h"

namespace ddprun {

using Dict = c10::impl::GenericDict;
Dict make_dict();

// The tensors are the model's own, on its device.
Dict model_state(const torch::nn::Module& model);

// A state of another model or optimizer.
class StateMismatch : public Error {
 public:
  StateMismatch(const std::string& what, const std::string& why, const std::string& remedy)
      : Error(what, why, remedy), why_(why) {}
  const std::string& why() const { return why_; }

 private:
  std::string why_;
};

// Why names and shapes do not match, naming a tensor; empty: they do.
std::string model_mismatch(const torch::nn::Module& model, const Dict& state);

// Copies into the model's tensors. Throws StateMismatch, naming the tensor, unless names and shapes match; `source` is
// for the message. Removes "module." if it is before every name (from Python's DDP).
void load_model_state(torch::nn::Module& model, const Dict& state, const std::string& source);

}  // namespace ddprun
