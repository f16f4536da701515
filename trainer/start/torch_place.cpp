#include "trainer/start/torch_place.h"

#include "rendezvous/base/error.h"

namespace ddprun::train {
namespace {

constexpr const char* kNamed = "DDPRUN_TORCH_DIR";

std::string variable(const TorchContext& here, const char* name) {
  const auto found = here.environment.find(name);
  return found == here.environment.end() ? "" : found->second;
}

// Patterns of folders, in order.
std::vector<std::string> places(const TorchContext& here) {
  if (const std::string named = variable(here, kNamed); !named.empty()) return {named};
  std::vector<std::string> out;
  for (const char* environment : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string folder = variable(here, environment); !folder.empty())
      out.push_back(folder + "/lib/python3*/site-packages/torch");
  out.insert(out.end(), {"/opt/libtorch", "/usr/local/lib/python3*/dist-packages/torch"});
  return out;
}

}  // namespace

std::string find_torch(const std::string& version, const TorchContext& here) {
  std::string seen;
  for (const std::string& place : places(here)) {
    bool found = false;
    for (const std::string& folder : here.paths(place)) {
      const std::string its_version = here.version(folder);
      if (its_version == version) return folder;
      if (its_version.empty()) continue;
      found = true;
      seen += (seen.empty() ? "" : ", ") + folder + " has " + its_version;
    }
    if (!found) seen += (seen.empty() ? "" : ", ") + std::string("none is in ") + place;
  }
  throw UsageError("cannot find LibTorch " + version, seen,
                   "Install it, as by pip install torch==" + version +
                       ", and name its folder, .../site-packages/torch, in " + kNamed + ".");
}

std::string library_path(const std::string& torch_folder, const std::string& before) {
  return torch_folder + "/lib" + (before.empty() ? "" : ":" + before);
}

}  // namespace ddprun::train
