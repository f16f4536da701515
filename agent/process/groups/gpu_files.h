// AMD's and Intel's GPUs, by the kernel's files: no library of their makers is loaded.
//
// Facts: the kernel's amdkfd (/sys/class/kfd, ROCm's own source), xe and i915 (/sys/class/drm); the variables as ROCm's
// and Level Zero's documentation has them, and as torch/cuda/__init__.py and torch/xpu/__init__.py read them.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::agent {

struct GpuFile {
  std::string id = {};       // "GPU-1a2b…", as ROCR_VISIBLE_DEVICES takes it; Intel's have none
  std::string address = {};  // on the PCI bus: "0000:dc:00.0"

  friend bool operator==(const GpuFile&, const GpuFile&) = default;
};

// The variables by which a program is shown some of the GPUs. Null: unset.
struct GpuVariables {
  const char* cuda = nullptr;       // CUDA_VISIBLE_DEVICES
  const char* hip = nullptr;        // HIP_VISIBLE_DEVICES: among those that ROCR leaves
  const char* rocr = nullptr;       // ROCR_VISIBLE_DEVICES
  const char* mask = nullptr;       // ZE_AFFINITY_MASK
  const char* hierarchy = nullptr;  // ZE_FLAT_DEVICE_HIERARCHY
};
GpuVariables gpu_variables();  // this process's

std::vector<std::string> ids_of(const std::vector<GpuFile>& gpus);

// Those that this process may open, without the ones of processors: on a desktop PyTorch for the CPU runs beside them.
// AMD's in ROCm's order; which are of processors is from LLVM's table (AMDGPUUsage, "APU").
std::vector<GpuFile> amd_gpus(const std::filesystem::path& root = "/");
// Intel's in the order of their addresses, each tile for itself unless the hierarchy is COMPOSITE.
std::vector<GpuFile> intel_gpus(const GpuVariables& variables, const std::filesystem::path& root = "/");

// What ROCR_VISIBLE_DEVICES leaves. HIP_VISIBLE_DEVICES, or else CUDA_VISIBLE_DEVICES, chooses among them.
std::vector<GpuFile> left_by_rocr(const std::vector<GpuFile>& gpus, const GpuVariables& variables);
const char* chosen_of_rocr(const GpuVariables& variables);
// What ZE_AFFINITY_MASK leaves: "0,2", or "0.0,0.1", which is one GPU.
std::vector<GpuFile> left_by_mask(const std::vector<GpuFile>& gpus, const GpuVariables& variables);

// Which of the devices, whose ids are "GPU-4a..." or empty, a program sees, in its order. As CUDA parses it: numbers or
// prefixes of ids; the first wrong entry ends the list. Null: all.
std::vector<std::size_t> visible_devices(const char* visible, const std::vector<std::string>& ids);

}  // namespace ddprun::agent
