// Chooses a worker's device from the settings, the machine's GPUs and the number of workers that share it. Pure.
#pragma once
#include <string>
#include <variant>

#include "trainer/ddp/group/cuda_driver.h"
#include "trainer/ddp/group/rank_env.h"

namespace ddprun::train {

enum class DeviceChoice { automatic, cpu, cuda };
// Parses the setting: auto, cpu or cuda.
DeviceChoice device_choice(const std::string& name);

struct UseCpu {};
struct AskPeers {};  // each rank may see a GPU of its own; the group's roster tells
struct UseGpu {
  int index;  // among the GPUs visible to this process
};

// The string is an error sentence: the reason and the remedy.
std::variant<UseCpu, UseGpu, AskPeers, std::string> choose_device(DeviceChoice choice, const Gpus& gpus,
                                                                  const RankEnv& env);

// CPU threads of this worker; 0 leaves LibTorch's default, which follows OMP_NUM_THREADS. Without any setting, one:
// small models are fastest with it, OpenMP's threads do not wait for each other on a busy machine, and the bits of a
// run do not depend on the number of cores.
int choose_threads(int requested, bool omp_num_threads_is_set);

}  // namespace ddprun::train
