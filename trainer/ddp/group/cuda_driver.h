// What the NVIDIA driver says about this machine's GPUs, before anything of LibTorch's GPU half is loaded.
#pragma once
#include <string>
#include <vector>

namespace ddprun {

// The answers of libcuda.so.1, an interface that the driver's versions share.
struct DriverAnswers {
  bool found = false;                   // the library
  int version = 0;                      // cuDriverGetVersion: 12040 is CUDA 12.4, the newest that it supports
  int init = 0;                         // cuInit's CUresult
  std::string init_name = {};           // of an error: CUDA_ERROR_SYSTEM_NOT_READY
  int count = 0;                        // cuDeviceGetCount: those in CUDA_VISIBLE_DEVICES
  std::vector<std::string> uuids = {};  // cuDeviceGetUuid_v2, in hexadecimal; empty: not known
};
DriverAnswers ask_driver();

struct Gpus {
  int count = 0;                   // visible to this process
  std::vector<std::string> uuids;  // of each; empty: not known
  std::string too_old;             // a clause: why those that are there cannot be used
  std::string problem, remedy;     // a clause and a sentence: the driver is not well
};
// `cuda_version`: that LibTorch is built for, as 13020; 0: none. Pure.
Gpus gpus_of(const DriverAnswers& driver, int cuda_version);

}  // namespace ddprun
