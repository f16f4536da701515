// The weights that a run begins with, where a file has them, and which of them it trains.
#pragma once
#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "trainer/config/options.h"

namespace ddprun::train {

// Of --init or --transfer, on one rank. Returns a sentence about it, or nothing where neither was asked for.
std::string load_first_weights(torch::nn::Module& model, const ModelOptions& options);

// Parameters whose names begin with none of the prefixes get no gradient; without prefixes all get one. Error where a
// prefix is no name's.
void freeze_all_but(torch::nn::Module& model, const std::vector<std::string>& prefixes);

// For training; but frozen batch norm keeps the statistics it came with, as its weights were trained for those.
void train_mode(torch::nn::Module& model);

}  // namespace ddprun::train
