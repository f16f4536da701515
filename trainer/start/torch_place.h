// Finds the LibTorch for a `train` that was installed from a package, which cannot know where its users have one. Pure:
// what is on the disk is passed in.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ddprun::train {

struct TorchContext {
  std::map<std::string, std::string> environment;
  std::function<std::vector<std::string>(const std::string& pattern)> paths;  // that match it, as a shell's
  std::function<std::string(const std::string& folder)> version;              // "2.15.0"; empty: no LibTorch is there
};

// The folder of a LibTorch of exactly that version: DDPRUN_TORCH_DIR's where it is set; else that of the active virtual
// or conda environment, of /opt/libtorch, or of the system's Python, whichever comes first. Throws UsageError if there
// is none.
std::string find_torch(const std::string& version, const TorchContext& context);

// LD_LIBRARY_PATH, with the libraries of that LibTorch before what the user has set.
std::string library_path(const std::string& torch_folder, const std::string& before);

}  // namespace ddprun::train
