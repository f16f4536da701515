// A model's weights as a file for others, and weights from a file of others: for serving, and for transfer learning.
//
//   if (group.is_main_process()) ddprun::publish(*model, "model.safetensors");
//
//   ddprun::LoadOptions options{.partial = true, .skip = {"fc."}};        // another task, a new last layer
//   std::cout << ddprun::load_weights(*model, "resnet18.pth", options).text();
//
// Weights are parameters and buffers under Python's state_dict names, in its order. Load before the model goes into
// DistributedDataParallel, which gives rank 0's to all ranks; with different files, or after it, all ranks load.
// Errors are exceptions whose what() is one sentence. Nothing in a file is trusted, and none of it is executed.
//
// Sources: Module.state_dict and load_state_dict of PyTorch 2.11;
// https://github.com/huggingface/safetensors#format.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

#pragma GCC visibility push(default)
namespace ddprun {

enum class WeightsFormat {
  by_ending,    // safetensors where the path ends in .safetensors, else torch
  torch,        // a bare state_dict: model.load_state_dict(torch.load(path, weights_only=True))
  safetensors,  // {"format": "pt"}: safetensors.torch.load_file(path)
};

// Writes all weights, as they lie on the CPU, to `path`: whole or not at all. The file is synced before it takes its
// name, and its folder after it. Names that share a tensor (tied weights) each get a copy of it, so that a reader needs
// to know of no tie. One rank at a time for one path; nobody steps meanwhile. The torch format takes the types of
// torch.save's old storages (floats of 16 bits and more, integers but unsigned ones above 8 bits, bool).
void publish(const torch::nn::Module& module, const std::string& path, WeightsFormat format = WeightsFormat::by_ending);

struct LoadOptions {
  // What fits is loaded and the rest reported. Without it all must fit, each name of the file and of the module.
  bool partial = false;
  // Prefixes of the file's names, and what stands there instead: {"backbone.", ""}. The first that fits counts, once.
  std::vector<std::pair<std::string, std::string>> rename = {};
  // The module's tensors whose names begin so stay as they are, and the file's of such names are passed over: "fc.".
  std::vector<std::string> skip = {};
  // How a misfit is to be mended, for programs whose users know nothing of LoadOptions; empty: in its words.
  std::string remedy = {};
};

struct ShapeMismatch {
  std::string name;
  std::vector<std::int64_t> in_file, in_module;
  bool operator==(const ShapeMismatch&) const = default;
};

// Names as the module has them, in its order; `unexpected` as the file has them after renaming, in the file's order.
struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;     // the file lacks them
  std::vector<std::string> unexpected;  // the module does not have them
  std::vector<ShapeMismatch> mismatched;
  std::vector<std::string> skipped;  // by LoadOptions::skip

  // "loaded 58 of 62 tensors (2 skipped); missing: a, b; ...", at most eight names of each kind.
  std::string text() const;
};

// Reads what torch.save or safetensors wrote (its content tells which) and copies it into the module's tensors, each in
// its own type and on its own device. A file of torch.save is a state_dict, or has one as MODEL_STATE (a snapshot of
// ours or of PyTorch's tutorial), model_state_dict, state_dict or model. "module." before all of its names, as Python's
// DistributedDataParallel leaves it, is taken off. A tensor of several names is loaded by any of them.
//
// Error, and the module as it was: an unreadable or damaged file; something that does not fit, without `partial`;
// nothing that fits, with it; two names that `rename` makes one.
LoadReport load_weights(torch::nn::Module& module, const std::string& path, const LoadOptions& options = {});

}  // namespace ddprun
#pragma GCC visibility pop
