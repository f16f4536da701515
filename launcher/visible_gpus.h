// How many GPUs a worker's CUDA would find, as torch.cuda.device_count() counts them, without a CUDA context.
//
// The rules are torch's (torch/cuda/__init__.py, _parse_visible_devices and _device_count_nvml).
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun::launcher {

// The UUIDs of this machine's GPUs, by index: NVML's, else gpus_by_files().
std::vector<std::string> gpus_of_machine();
// One empty text for each nvidia<number> in the folder: containers keep the host's numbers, so there may be gaps.
std::vector<std::string> gpus_by_files(const std::filesystem::path& devices = "/dev");

// `visible`: the value of CUDA_VISIBLE_DEVICES; null: all. Entries are indices, the beginnings of UUIDs ("GPU-1a2b") or
// names of MIG instances, of which CUDA shows one. What cannot be ends the list; what is named twice empties it.
int count_visible(const char* visible, const std::vector<std::string>& uuids);

}  // namespace ddprun::launcher
