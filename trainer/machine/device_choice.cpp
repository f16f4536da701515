#include "trainer/machine/device_choice.h"

namespace ddprun::train {

DeviceChoice device_choice(const std::string& name) {
  return name == "cpu" ? DeviceChoice::cpu : name == "cuda" ? DeviceChoice::cuda : DeviceChoice::automatic;
}

std::variant<UseCpu, UseGpu, AskPeers, std::string> choose_device(DeviceChoice choice, const Gpus& gpus,
                                                                  const RankEnv& env) {
  if (choice == DeviceChoice::cpu) return UseCpu{};
  if (!gpus.problem.empty()) return gpus.problem + ". " + gpus.remedy + " Or pass --device cpu.";
  if (choice == DeviceChoice::automatic && gpus.count == 0) return UseCpu{};
  if (!gpus.too_old.empty())
    return "--device is cuda, but " + gpus.too_old + ": update the driver, or pass --device cpu.";
  if (gpus.count == 0)
    return "--device is cuda but this worker sees no GPU it can use: check the driver and CUDA_VISIBLE_DEVICES, or "
           "pass --device cpu.";
  if (gpus.count == 1 && env.local_world_size > 1) return AskPeers{};
  // One communicator rank per GPU: NCCL rejects two on the same one, much later and with an unclear message.
  if (env.local_world_size > gpus.count || env.local_rank >= gpus.count)
    return std::to_string(env.local_world_size) + " workers on this machine but only " + std::to_string(gpus.count) +
           " GPUs: start at most one worker per GPU (--nproc_per_node=" + std::to_string(gpus.count) +
           "), or pass --device cpu.";
  return UseGpu{env.local_rank};
}

int choose_threads(int requested, bool omp_num_threads_is_set) {
  return requested > 0 ? requested : omp_num_threads_is_set ? 0 : 1;
}

}  // namespace ddprun::train
