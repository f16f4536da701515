// How many GPUs a worker would find, as torch.cuda.device_count() and torch.xpu.device_count() count them, without a
// context.
//
// The rules are torch's (torch/cuda/__init__.py, _parse_visible_devices and _device_count_nvml).
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "agent/process/groups/gpu_files.h"

namespace ddprun::launcher {

// NVIDIA's, where there is one of theirs, else AMD's, else Intel's.
int count_gpus(const agent::GpuVariables& variables);

// Level Zero's numbers of all GPUs of Intel, "0,1,2", where those are what count_gpus() counts.
std::string all_of_intel(const agent::GpuVariables& variables);

// The UUIDs of this machine's GPUs of NVIDIA, by index: NVML's, else gpus_by_files().
std::vector<std::string> gpus_of_machine();
// One empty text for each nvidia<number> in the folder: containers keep the host's numbers, so there may be gaps.
std::vector<std::string> gpus_by_files(const std::filesystem::path& devices = "/dev");

// `visible`: the value of CUDA_VISIBLE_DEVICES; null: all. Entries are indices, the beginnings of UUIDs ("GPU-1a2b") or
// names of MIG instances, of which CUDA shows one. What cannot be ends the list; what is named twice empties it.
int count_visible(const char* visible, const std::vector<std::string>& uuids);

}  // namespace ddprun::launcher
