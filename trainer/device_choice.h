// Where a worker computes, decided from what it was asked, what the machine has and how many workers share it. Pure.
#pragma once
#include <string>
#include <variant>

#include "trainer/ddp/group/rank_env.h"

namespace ddprun::train {

enum class DeviceChoice { automatic, cpu, cuda };
// auto, cpu or cuda, as the settings have it.
DeviceChoice device_choice(const std::string& name);

struct UseCpu {};
struct UseGpu {
  int index;  // among the GPUs this process may see
};

// The third answer is a sentence: why it cannot be done and what to do.
std::variant<UseCpu, UseGpu, std::string> choose_device(DeviceChoice choice, int gpu_count, const RankEnv& env);

// CPU threads of this worker; 0 leaves LibTorch's own choice, which follows OMP_NUM_THREADS. One where nobody says
// anything: small models are fastest so, a busy machine does not make OpenMP's threads wait for each other, and the
// bits of a run do not depend on the cores.
int choose_threads(int asked, bool omp_num_threads_is_set);

}  // namespace ddprun::train
