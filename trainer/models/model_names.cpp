#include "trainer/models/model_names.h"

#include "launcher/settings/nearest_name.h"
#include "rendezvous/base/spelling.h"
#include "rendezvous/base/suggestion.h"

namespace ddprun::train {
const std::vector<ModelName>& model_names() {
  static const std::vector<ModelName> names{
      {"convnet", ModelInput::images,
       "two 5x5 convolutions (16, 32 channels) with batch norm and pooling, one linear layer"},
      {"vgg11_bn", ModelInput::images,
       "torchvision's: eight 3x3 convolutions with batch norm; images of 32x32 and more"},
      {"resnet18", ModelInput::images, "torchvision's: eight residual blocks of two 3x3 convolutions with batch norm"},
      {"resnet34", ModelInput::images, "torchvision's: 16 such blocks"},
      {"resnet50", ModelInput::images, "torchvision's: 16 residual blocks of three convolutions (1x1, 3x3, 1x1)"},
      {"resnet101", ModelInput::images, "torchvision's: 33 blocks as of resnet50"},
      {"resnet152", ModelInput::images, "torchvision's: 50 blocks as of resnet50"},
      {"linear", ModelInput::features, "one linear layer, for regression or as the smallest model there is"},
      {"gpt", ModelInput::tokens, "a small transformer as GPT-2 is built, that writes text character by character"},
  };
  return names;
}

bool has_variants(std::string_view name) { return name == "vgg11_bn" || name.starts_with("resnet"); }

const ModelName* find_model(std::string_view name) {
  for (const ModelName& model : model_names())
    if (model.name == name) return &model;
  return nullptr;
}

std::string no_such_model(const std::string& name) {
  std::vector<std::string> names;
  for (const ModelName& model : model_names()) names.emplace_back(model.name);
  return "there is no model '" + visible(name) + "'." + did_you_mean(settings::nearest_name(name, names)) +
         " There are " + listed(names, "and");
}

}  // namespace ddprun::train
