// A small network for the tours: [n, in] -> [n, out], two hidden layers.
#pragma once
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace ddprun::train {

class TourNet : public torch::nn::Cloneable<TourNet> {
 public:
  TourNet(std::int64_t in, std::int64_t hidden, std::int64_t out) : in_(in), hidden_(hidden), out_(out) { reset(); }

  void reset() override {
    first = register_module("first", torch::nn::Linear(in_, hidden_));
    second = register_module("second", torch::nn::Linear(hidden_, hidden_));
    last = register_module("last", torch::nn::Linear(hidden_, out_));
  }
  at::Tensor forward(const at::Tensor& input) { return last(second(first(input).tanh()).tanh()); }

  torch::nn::Linear first{nullptr}, second{nullptr}, last{nullptr};

 private:
  std::int64_t in_, hidden_, out_;
};

}  // namespace ddprun::train
