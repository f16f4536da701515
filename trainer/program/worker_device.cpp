#include "trainer/program/worker_device.h"

#include "rendezvous/base/print_line.h"
#include "trainer/ddp/group/gpu.h"
#include "trainer/machine/device_choice.h"

namespace ddprun::train {

std::optional<at::Device> worker_device(const std::string& name, const RankEnv& env, std::string& problem) {
  const DeviceChoice requested = device_choice(name);
  if (requested == DeviceChoice::cpu) return at::kCPU;
  if (!env.local_given && env.world_size > 1) return {};
  const Gpus gpus = find_gpus();
  const auto choice = choose_device(requested, gpus, env);
  if (std::holds_alternative<UseCpu>(choice) && !gpus.too_old.empty() && env.local_rank == 0)
    print_line(stderr, "train: the GPUs are not used: " + gpus.too_old + ".");
  if (const auto* sentence = std::get_if<std::string>(&choice)) problem = *sentence;
  if (std::holds_alternative<AskPeers>(choice)) return at::kCUDA;
  if (const auto* gpu = std::get_if<UseGpu>(&choice)) {
    load_gpu_support();
    return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(gpu->index));
  }
  return at::kCPU;
}

}  // namespace ddprun::train
