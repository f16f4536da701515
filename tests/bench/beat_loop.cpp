// What reports to the worker channel cost: beat_loop COUNT prints the nanoseconds of a beat and a wait's two
// beats, each the mean of COUNT, the best of some, in JSON. Under an agent or with a page of the bench's.
//
// beat_loop COUNT steps: COUNT training steps of a millisecond that report as the library does, and as many that report
// nothing, in turns; the microseconds of processor time that the quarter of them takes that is least disturbed.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <vector>

#include "rendezvous/channel/beat_scope.h"

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

double processor_us() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

// Nothing but arithmetic.
class Work {
 public:
  Work() {
    constexpr int kRounds = 100'000;
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      const double begin = processor_us();
      compute(kRounds);
      rounds_of_us_ = std::max(rounds_of_us_, kRounds / (processor_us() - begin));
    }
  }
  void take_us(double us) { compute(static_cast<int>(us * rounds_of_us_)); }

 private:
  void compute(int rounds) {
    std::uint64_t value = value_;
    for (int i = 0; i < rounds; ++i) value = value * 6364136223846793005u + 1442695040888963407u;
    value_ = value;
  }

  volatile std::uint64_t value_ = 1;
  double rounds_of_us_ = 0;
};

// With a buffer to synchronize, so seven reports.
double step_us(Work& work, int number, bool reports) {
  const double begin = processor_us();
  {
    std::optional<ddprun::LoadScope> load;
    if (reports) load.emplace();
    work.take_us(250);
  }
  work.take_us(250);
  for (const char* name : {"buffers", "grads"}) {
    const ddprun::WaitScope wait(name, reports);
    work.take_us(250);
  }
  if (reports) ddprun_channel_step(static_cast<std::uint64_t>(number));
  return processor_us() - begin;
}

void measure_steps(int count) {
  ddprun::set_training_thread();
  ddprun_channel_phase(DDPRUN_PHASE_TRAINING);
  Work work;
  std::array<std::vector<double>, 2> took;
  for (int number = 0; number < count; ++number)
    for (const bool first : {true, false}) {
      const bool reports = first == (number % 2 == 0);
      took[reports].push_back(step_us(work, number, reports));
    }
  for (std::vector<double>& each : took) std::sort(each.begin(), each.end());
  const std::size_t quarter = took[0].size() / 4;
  std::printf("{\"plain\": %.2f, \"reporting\": %.2f}\n", took[0][quarter], took[1][quarter]);
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 100'000;
  if (!ddprun_channel_attach()) return std::fputs("beat_loop: there is no worker channel\n", stderr), 1;
  if (argc > 2 && std::strcmp(argv[2], "steps") == 0) return measure_steps(count), 0;
  const double beat =
      nanoseconds(count, [](int i) { ddprun_channel_beat(i % 2 ? DDPRUN_BEAT_LOAD : DDPRUN_BEAT_COMPUTE); });
  const double wait = nanoseconds(count, [](int) { ddprun_channel_beat(ddprun_channel_wait("reduce")); });
  std::printf("{\"beat\": %.1f, \"wait\": %.1f}\n", beat, wait);
}
