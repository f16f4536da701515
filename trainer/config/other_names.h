// The names that settings of `train` have elsewhere: in PyTorch's examples and tutorials, torchvision's reference
// scripts, Lightning, Hugging Face's Trainer, torchrun. Pure.
#pragma once
#include <vector>

#include "launcher/settings/option.h"

namespace ddprun::train {

// Rows that stand for a setting, and rows for what `train` does not have, each with what to do instead. They are in no
// overview.
std::vector<settings::Option> other_names();

}  // namespace ddprun::train
