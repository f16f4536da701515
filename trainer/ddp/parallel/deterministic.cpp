#include "ddprun/deterministic.h"

#include <ATen/Context.h>
#include <c10/util/env.h>
#include <torch/utils.h>

#include "rendezvous/base/error.h"

namespace ddprun {
namespace {

constexpr const char* kVariable = "CUBLAS_WORKSPACE_CONFIG";
constexpr const char* kEightOf4Mib = ":4096:8";
constexpr const char* kEightOf16Kib = ":16:8";

// cuBLAS needs this variable to be deterministic; LibTorch rejects every other value, at the first multiplication.
void configure_cublas() {
  const auto value = c10::utils::get_env(kVariable);
  if (!value) return c10::utils::set_env(kVariable, kEightOf4Mib);
  if (*value != kEightOf4Mib && *value != kEightOf16Kib)
    throw Error("cannot compute deterministically", std::string(kVariable) + " is '" + *value + "'",
                std::string("Unset it, or let it be ") + kEightOf4Mib + " or " + kEightOf16Kib + ".");
}

}  // namespace

void use_deterministic_algorithms(bool warn_only) {
  configure_cublas();
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, warn_only);
  context.setDeterministicFillUninitializedMemory(true);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

void seed_everything(std::uint64_t seed, int rank) { torch::manual_seed(seed + static_cast<std::uint64_t>(rank)); }

}  // namespace ddprun
