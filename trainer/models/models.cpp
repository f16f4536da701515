#include "trainer/models/models.h"

#include <iterator>
#include <map>

#include "trainer/models/makers.h"

namespace ddprun::train {

std::shared_ptr<Model> make_model(const ModelSpec& spec) {
  static const std::map<std::string, std::shared_ptr<Model> (*)(const ModelSpec&)> makers{
      {"convnet", make_convnet},  {"vgg11_bn", make_vgg11_bn}, {"resnet18", make_resnet},
      {"resnet34", make_resnet},  {"resnet50", make_resnet},   {"resnet101", make_resnet},
      {"resnet152", make_resnet}, {"linear", make_linear},     {"gpt", make_gpt},
  };
  if (const auto problem = problem_with(spec)) throw *problem;
  return makers.at(spec.name)(spec);
}

}  // namespace ddprun::train
