// One maker for each model. The spec must be valid.
#pragma once
#include <memory>

#include "trainer/models/models.h"

namespace ddprun::train {

std::shared_ptr<Model> make_convnet(const ModelSpec& spec);
std::shared_ptr<Model> make_vgg11_bn(const ModelSpec& spec);
std::shared_ptr<Model> make_resnet(const ModelSpec& spec);  // all of the family
std::shared_ptr<Model> make_linear(const ModelSpec& spec);
std::shared_ptr<Model> make_gpt(const ModelSpec& spec);

}  // namespace ddprun::train
