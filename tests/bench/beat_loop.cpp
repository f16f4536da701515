// What reports to the worker channel cost: beat_loop COUNT prints the nanoseconds of a step, a beat and a wait's two
// beats, each the mean of COUNT, the best of some, in JSON. Under an agent or with a page of the bench's.
#include "rendezvous/channel/worker_channel.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kRepeats = 40;

template <class Report>
double nanoseconds(int count, const Report& report) {
  double best = 1e9;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) report(i);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / count);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 100'000;
  if (!ddprun_channel_attach()) return std::fputs("beat_loop: there is no worker channel\n", stderr), 1;
  const double step = nanoseconds(count, [](int i) { ddprun_channel_step(static_cast<std::uint64_t>(i)); });
  const double beat =
      nanoseconds(count, [](int i) { ddprun_channel_beat(i % 2 ? DDPRUN_BEAT_LOAD : DDPRUN_BEAT_COMPUTE); });
  const double wait = nanoseconds(count, [](int) { ddprun_channel_beat(ddprun_channel_wait("reduce")); });
  std::printf("{\"step\": %.1f, \"beat\": %.1f, \"wait\": %.1f}\n", step, beat, wait);
}
