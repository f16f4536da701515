// Loads a run's first weights from a file, and freezes those that it does not train.
#pragma once
#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "trainer/config/options.h"

namespace ddprun::train {

// Loads the file of --init or --transfer, on one rank. Returns a sentence about it, or nothing if neither is set.
std::string load_initial_weights(torch::nn::Module& model, const ModelOptions& options);

// Freezes parameters whose names begin with none of the prefixes; without prefixes none. Throws Error if a prefix
// matches no name.
void freeze_all_but(torch::nn::Module& model, const std::vector<std::string>& prefixes);

// Sets training mode, except for frozen batch norm: it keeps its statistics, as its weights were trained for those.
void train_mode(torch::nn::Module& model);

}  // namespace ddprun::train
