// How many GPUs CUDA_VISIBLE_DEVICES leaves: as torch.cuda.device_count() says, whose rules these are.
#include "launcher/config/visible_gpus.h"

#include "tests/support/test.h"

namespace {

const std::vector<std::string> kFour{"GPU-1a2b", "GPU-1a3c", "GPU-2d4e", "GPU-5f60"};

}  // namespace

TEST_CASE("entries of CUDA_VISIBLE_DEVICES are counted as torch counts them", "[gpus]") {
  CHECK(count_visible(nullptr, kFour) == 4);
  CHECK(count_visible("", kFour) == 0);
  CHECK(count_visible("-1", kFour) == 0);
  CHECK(count_visible("0,1", kFour) == 2);
  CHECK(count_visible("3, 0", kFour) == 2);
  CHECK(count_visible("0,-1,1", kFour) == 1);  // ends the list
  CHECK(count_visible("0,7,1", kFour) == 1);   // there is no such GPU
  CHECK(count_visible("7", kFour) == 0);
  CHECK(count_visible("1,1", kFour) == 0);            // twice
  CHECK(count_visible("1gpu2,2ampere", kFour) == 2);  // as strtoul
  CHECK(count_visible("NoDevFiles", kFour) == 0);     // what Slurm writes for none
  CHECK(count_visible("GPU-2d4e,GPU-1a2b", kFour) == 2);
  CHECK(count_visible("GPU-2", kFour) == 1);
  CHECK(count_visible("GPU-1a", kFour) == 0);  // two of them
  CHECK(count_visible("GPU-2d4e,GPU-2d", kFour) == 0);
  CHECK(count_visible("GPU-2d4e,0", kFour) == 1);
  CHECK(count_visible("GPU-none", kFour) == 0);
  CHECK(count_visible("MIG-aa,MIG-bb", kFour) == 1);  // CUDA shows one instance to a process
  CHECK(count_visible("MIG-aa", {}) == 0);
  CHECK(count_visible("0", {}) == 0);
  CHECK(count_visible("GPU-anything,GPU-else", {"", "", ""}) == 2);  // without NVML
}

TEST_CASE("without NVML GPUs are the devices with a number, whichever they are", "[gpus]") {
  const TempFolder devices;
  for (const char* name : {"nvidia3", "nvidia5", "nvidia10", "nvidiactl", "nvidia-uvm", "null"})
    devices.write(name, "");
  CHECK(gpus_by_files(devices.path()).size() == 3);
  CHECK(gpus_by_files(devices / "none").empty());
}
