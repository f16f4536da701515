// restless_worker SEED STEP_MS FIRST_STEP_S: a training loop without LibTorch in which everything takes as long as it
// likes and nobody hangs. The first step takes so many seconds, each later one on each rank STEP_MS or up to ten times
// as long; now and then a rank evaluates or saves for up to 4 s, as all or alone. Goes on until there is a file
// "enough".
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "rendezvous/channel/worker_channel.h"
#include "tests/e2e/file_collectives.h"

namespace {

using ddprun::test::environment_number;
using namespace std::chrono_literals;

constexpr int kJitter = 10, kSlowPhaseEvery = 10, kSlowPhaseMs = 4000;

// So long of its own time: what is left when the process is stopped is left afterwards.
void sleep_ms(int ms) {
  for (int i = 0; i < ms; ++i) std::this_thread::sleep_for(1ms);
}

int between(std::mt19937_64& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}

void spend(ddprun_phase phase, int ms) {
  ddprun_channel_phase(phase);
  sleep_ms(ms);
  ddprun_channel_phase(DDPRUN_PHASE_TRAINING);
}

// `common`: the same on all ranks.
void slow_phase(std::mt19937_64& common, std::mt19937_64& own) {
  const auto phase = common() % 2 ? DDPRUN_PHASE_EVALUATING : DDPRUN_PHASE_SAVING;
  const int who = between(common, -1, environment_number("WORLD_SIZE") - 1);  // -1: all
  if (who < 0 || who == environment_number("RANK")) spend(phase, between(own, 0, kSlowPhaseMs));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto seed = std::strtoull(argv[1], nullptr, 10);
  const int step_ms = std::atoi(argv[2]), first_step_s = std::atoi(argv[3]), rank = environment_number("RANK");
  ddprun_channel_attach();
  ddprun_channel_handle_signals();
  ddprun::test::FileCollectives collectives;
  std::mt19937_64 common(seed), own(seed * 31 + static_cast<unsigned>(rank) + 1);
  ddprun_channel_phase(DDPRUN_PHASE_TRAINING);
  for (uint64_t step = 1; !collectives.ends(); ++step) {
    ddprun_channel_beat(DDPRUN_BEAT_LOAD);
    sleep_ms(1);
    ddprun_channel_beat(DDPRUN_BEAT_COMPUTE);
    sleep_ms(step == 1 ? 1000 * first_step_s : between(own, step_ms, kJitter * step_ms));
    if (rank == 0 && access("enough", F_OK) == 0) collectives.end();
    collectives.wait("grads");
    if (step % kSlowPhaseEvery == 0) slow_phase(common, own);
    ddprun_channel_step(step);
    if (step == 1 && rank == 0) std::printf("trains\n"), std::fflush(stdout);
    if (ddprun_channel_request().kind != DDPRUN_REQUEST_NONE) return 0;
  }
  ddprun_channel_phase(DDPRUN_PHASE_FINISHING);
  std::printf("done in round %d\n", environment_number("DDPRUN_ROUND"));
}
