// The names of the shared libraries that a GPU takes.
#pragma once

namespace ddprun {

inline constexpr const char* kCudaDriverLibrary = "libcuda.so.1";
inline constexpr const char* kGpuLibrary = "libddprun_gpu.so";  // ours; found by the program's run path

}  // namespace ddprun
