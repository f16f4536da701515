// The name that was probably meant, of a model or a data set: more tolerant than nearest() (spelling.h). Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::settings {

// As nearest(), whatever the case; else the first one that begins with the same letters: of "cifar" or "vgg16". Empty
// if there is none.
std::string nearest_name(std::string_view typed, const std::vector<std::string>& names);

}  // namespace ddprun::settings
