// Writes a model's weights for other programs and reads theirs: for serving and transfer learning.
//
//   if (group.is_main_process()) ddprun::publish(*model, "model.safetensors");
//
//   ddprun::LoadOptions options{.partial = true, .skip = {"fc."}};        // for another task, with a new last layer
//   std::cout << ddprun::load_weights(*model, "resnet18.pth", options).text();
//
// Weights are parameters and buffers under Python's state_dict names, in its order. Load before constructing
// DistributedDataParallel, which copies rank 0's to all ranks; with different files, or later, all ranks load.
// Errors are exceptions whose what() is one sentence. Nothing in a file is trusted, and none of it is executed.
//
// Sources: Module.state_dict and load_state_dict of PyTorch 2.11;
// https://github.com/huggingface/safetensors#format.
#pragma once
#include <cstddef>
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
  by_ending,    // safetensors if the path ends in .safetensors, else torch
  torch,        // a bare state_dict: model.load_state_dict(torch.load(path, weights_only=True))
  safetensors,  // {"format": "pt"}: safetensors.torch.load_file(path)
};

// Writes all weights, copied to the CPU, to `path`: whole or not at all. The file is synced before it is renamed, and
// its folder afterwards. Names that share a tensor (tied weights) each get a copy. Only one rank at a time may write a
// path; no optimizer may step meanwhile. The torch format supports the types of torch.save's old storages (floats of 16
// bits and more, bool, integers except unsigned ones above 8 bits).
void publish(const torch::nn::Module& module, const std::string& path, WeightsFormat format = WeightsFormat::by_ending);

struct LoadOptions {
  // Loads what fits and reports the rest. Without it, all names of the file and of the module must match.
  bool partial = false;
  // Prefixes of the file's names and their replacements: {"backbone.", ""}. Only the first match is applied, once.
  std::vector<std::pair<std::string, std::string>> rename = {};
  // Name prefixes: such tensors of the module stay unchanged, and such tensors of the file are ignored: "fc.".
  std::vector<std::string> skip = {};
  // The remedy in the error for a mismatch, for programs whose users do not know LoadOptions; empty: names LoadOptions.
  std::string remedy = {};
  // What messages call the file, for programs whose users named it by an option.
  std::string what = "the weights";
};

struct ShapeMismatch {
  std::string name;
  std::vector<std::int64_t> in_file, in_module;
  bool operator==(const ShapeMismatch&) const = default;
};

// Names as the module has them, in its order; `unexpected` as the file has them after renaming, in the file's order.
struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;     // not in the file
  std::vector<std::string> unexpected;  // not in the module
  std::vector<ShapeMismatch> mismatched;
  std::vector<std::string> skipped;  // by LoadOptions::skip
  // With which all names of the file begin, and which was left out: "_orig_mod.module."; and how many they are.
  std::string prefix;
  std::size_t names_with_prefix = 0;

  // "loaded 58 of 62 tensors (2 skipped); missing: a, b; ...", at most eight names of each kind.
  std::string text() const;
  // "all 62 names begin with 'module.', which is left out", or nothing.
  std::string prefix_text() const;
};

// Reads a file of torch.save or safetensors (detected by content) and copies it into the module's tensors, which keep
// their types and devices. A file of torch.save, of any version but the tar archives of 0.1, has a state_dict, bare or
// in a dictionary (model_state_dict, state_dict, model and the like; else the only entry that has named tensors), a
// whole module, or a TorchScript module. A file in several parts is named by its index (model.safetensors.index.json)
// or its folder. Other files are refused by a sentence that names their format and, where there is one, the command
// that converts them.
//
// Prefixes that all names begin with (Python's DistributedDataParallel writes "module.", torch.compile "_orig_mod.")
// are left out if more names fit without them. A tensor with several names is loaded from any of them;
// num_batches_tracked, which PyTorch wrote first in 0.4.1, may be missing.
//
// Throws an Error and leaves the module unchanged if the file is unreadable or damaged; without `partial`, if anything
// does not fit; with it, if nothing fits; if `rename` maps two names to one.
LoadReport load_weights(torch::nn::Module& module, const std::string& path, const LoadOptions& options = {});

}  // namespace ddprun
#pragma GCC visibility pop
