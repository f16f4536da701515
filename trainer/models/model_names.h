// The models of `train` by name, for --help and for checking a command line before anything is loaded. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::train {

enum class ModelInput {
  images,    // [n, channels, height, width] float -> [n, classes]
  tokens,    // [n, up to context] int64 -> [n, as many, vocabulary]
  features,  // [n, features] float -> [n, outputs]
};

struct ModelName {
  const char* name;
  ModelInput input;
  const char* help;  // what --help says about it
};

// In the order in which --help shows them.
const std::vector<ModelName>& model_names();

// Null if no model has that name.
const ModelName* find_model(std::string_view name);

// Has ModelSpec's heads and width divisor: vgg11_bn and the ResNets.
bool has_variants(std::string_view name);

// "there is no model resnet. Did you mean 'resnet18'? There are convnet, ... and gpt", without a full stop.
std::string no_such_model(const std::string& name);

}  // namespace ddprun::train
