// A job file's table of hyperparameters as words of a command line. Pure.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "launcher/settings/config_file.h"

namespace ddprun::launcher {

enum class HyperparameterStyle {
  argparse,   // true: --flag, false: nothing; a list: --sizes 64 32
  sagemaker,  // as SageMaker hands them to a script: --flag True, --sizes [64,32]
  hydra       // flag=true, sizes=[64,32], optimizer.lr=0.1
};
// One of "argparse", "sagemaker" and "hydra"; false: it is none.
bool read_style(const std::string& text, HyperparameterStyle& style);

// In the order of the file. Values that the style cannot write are told to `notes`.
using Hyperparameters = std::vector<std::pair<std::string, std::vector<std::string>>>;
Hyperparameters read_hyperparameters(const toml::table& table, HyperparameterStyle style, settings::FileNotes& notes);

// The later ones replace earlier ones of the same name, in their place.
void merge(Hyperparameters& into, Hyperparameters later);

std::vector<std::string> words_of(const Hyperparameters& hyperparameters);

}  // namespace ddprun::launcher
