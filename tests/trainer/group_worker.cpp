// One rank of process_group_test: group_worker INIT_METHOD TIMEOUT_MS TIMES [RANK WORLD_SIZE]. Joins so many times,
// adds up something each time, and says who it is. An error is one line on stderr and exit code 1.
#include <torch/torch.h>

#include <cstdio>
#include <string>

#include "ddprun/collectives.h"

int main(int argc, char** argv) try {
  ddprun::InitOptions options{.init_method = argv[1], .timeout = std::chrono::milliseconds(std::stoi(argv[2]))};
  if (argc > 5) {
    options.rank = std::stoi(argv[4]);
    options.world_size = std::stoi(argv[5]);
  }
  for (int i = 0; i < std::stoi(argv[3]); ++i) {
    ddprun::init_process_group(options);
    const auto sum = torch::tensor(ddprun::rank() + 1);
    ddprun::all_reduce(sum);
    const auto here = ddprun::machine_group();
    std::printf("rank %d of %d, local rank %d of %d, %d here, sum %d\n", ddprun::rank(), ddprun::world_size(),
                ddprun::local_rank(), ddprun::local_world_size(), here.world_size(), sum.item<int>());
    ddprun::synchronize();
    ddprun::destroy_process_group();
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
