// A model's name and sizes, and why they may be invalid. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/base/error.h"

namespace ddprun::train {

// A model uses only the sizes of its own kind of input (model_names.h).
struct ModelSpec {
  std::string name;
  // Of images: convnet, vgg11_bn, resnet18 to resnet152.
  std::int64_t channels = 1, height = 8, width = 8, classes = 10;
  // Of tokens: gpt. `context` is the number of tokens it sees; `embedding` is divided among the heads.
  std::int64_t vocabulary = 0, context = 64, layers = 2, heads = 2, embedding = 64;
  double dropout = 0;
  // Of features: linear.
  std::int64_t features = 20, outputs = 1;
  // "small", as usual for images of 32 by 32. vgg11_bn: pooled to 1 by 1, one linear layer; ResNets: begin with a 3x3
  // convolution and no pooling. "imagenet": torchvision's own, whose published weights fit.
  std::string head = "small";
  // Every number of channels inside vgg11_bn and ResNets is divided by it, for small machines: 1, 2, 4, ... 64.
  std::int64_t width_divisor = 1;
};

// The first problem of the spec, if any.
std::optional<UsageError> problem_with(const ModelSpec& spec);

}  // namespace ddprun::train
