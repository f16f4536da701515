// Adds up its ranks in every step, until the file "done" exists; under --in-process it stays when a peer is lost. Rank
// 0 exits with 3 once the file "fail" exists, and has a long step while "slow" exists. Prints "rank R of round N:
// process PID" at the beginning of each round.
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "ddprun/collectives.h"
#include "ddprun/process_group.h"
#include "ddprun/worker.h"

namespace {

bool train(ddprun::Worker& worker) {
  ddprun::init_process_group();
  std::printf("rank %d of round %s: process %d\n", ddprun::rank(), std::getenv("DDPRUN_ROUND"), getpid());
  std::fflush(stdout);
  for (std::uint64_t step = 1;; ++step) {
    const auto done = torch::tensor(std::filesystem::exists("done") ? 1 : 0);
    ddprun::all_reduce(done);
    if (done.item<int>() > 0) return true;
    if (ddprun::rank() == 0 && std::filesystem::exists("fail")) {
      std::fprintf(stderr, "these are its last words\n");
      _exit(3);
    }
    if (ddprun::rank() == 0 && std::filesystem::exists("slow")) {
      std::puts("a long step begins");
      std::fflush(stdout);
      while (std::filesystem::exists("slow")) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    if (worker.step_done(step) != ddprun::Asked::nothing) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

int run() {
  ddprun::Worker worker;
  const bool stays = worker.stay_in_process();
  for (;;) {
    try {
      if (train(worker)) break;
    } catch (const std::exception& error) {
      if (!stays || !ddprun::is_loss_of_peer(error)) throw;
    }
    ddprun::abort_process_group();
    if (!worker.rejoin()) return 1;
  }
  return 0;
}

}  // namespace

int main() try { return run(); } catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
