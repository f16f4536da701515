#include "launcher/ssh/handed_environment.h"

#include <algorithm>
#include <string_view>

namespace ddprun::launcher {
namespace {

constexpr std::string_view kHandedNames[] = {"PATH",         "LD_LIBRARY_PATH",   "VIRTUAL_ENV",
                                             "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "TOKENIZERS_PARALLELISM",
                                             "LOGLEVEL",     "NO_COLOR",          "TZ"};
constexpr std::string_view kHandedPrefixes[] = {"PYTHON", "TORCH",     "NCCL_", "GLOO_",  "OMP_",    "GOMP_",  "KMP_",
                                                "MKL_",   "OPENBLAS_", "CUDA_", "CUDNN_", "CUBLAS_", "UCX_",   "UCC_",
                                                "FI_",    "RDMAV_",    "TP_",   "HF_",    "WANDB_",  "MLFLOW_"};
// Devices of one machine, and files that belong to one process.
constexpr std::string_view kKeptNames[] = {"CUDA_VISIBLE_DEVICES", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_RUN_ID",
                                           "TORCHELASTIC_TIMER_FILE"};

}  // namespace

bool is_handed_on(const std::string& name) {
  if (std::ranges::find(kKeptNames, name) != std::end(kKeptNames)) return false;
  if (std::ranges::find(kHandedNames, name) != std::end(kHandedNames)) return true;
  return std::ranges::any_of(kHandedPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

std::map<std::string, std::string> handed_environment(const std::map<std::string, std::string>& own) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : own)
    if (is_handed_on(name)) out.emplace(name, value);
  return out;
}

}  // namespace ddprun::launcher
