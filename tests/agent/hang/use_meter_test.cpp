#include "agent/hang/use_meter.h"

#include "tests/support/test.h"

namespace {

struct Workers {
  UseMeter meter;
  TimePoint now{};
  double cpu_s[2] = {}, bytes[2] = {};

  UseSample sample(int rank) const { return {now, cpu_s[rank], bytes[rank], 1000}; }
  void pass(Duration time, double processors_0, double processors_1 = 0, double bytes_per_second = 0) {
    for (const TimePoint until = now + time; now < until;) {
      now += kUseSampleEvery;
      const double seconds = std::chrono::duration<double>(kUseSampleEvery).count();
      cpu_s[0] += processors_0 * seconds;
      cpu_s[1] += processors_1 * seconds;
      bytes[1] += bytes_per_second * seconds;
      for (const int rank : {0, 1}) meter.add(rank, sample(rank));
    }
  }
};

}  // namespace

TEST_CASE("what workers use is an average of the last seconds, also right after a sample", "[use]") {
  Workers workers;
  CHECK_FALSE(workers.meter.use(0, workers.sample(0)).processors);
  workers.pass(60s, 0.5, 3);
  CHECK(*workers.meter.use(0, workers.sample(0)).processors == Approx(0.5));
  CHECK(*workers.meter.use(1, workers.sample(1)).processors == Approx(3));
  workers.now += 2s;
  workers.cpu_s[0] += 2 * 8;
  CHECK(*workers.meter.use(0, workers.sample(0)).processors == Approx(8));
  CHECK(workers.meter.use(0, workers.sample(0)).memory == 1000);
  workers.cpu_s[0] = 1;  // a process that it had started has ended
  CHECK(*workers.meter.use(0, workers.sample(0)).processors == 0);
}

TEST_CASE("a worker is still while it neither computes nor reads", "[use]") {
  Workers workers;
  workers.pass(60s, 1, 0.001);
  CHECK_FALSE(workers.meter.use(0, workers.sample(0)).still);
  CHECK(workers.meter.use(1, workers.sample(1)).still == 50s);  // since the first sample
  workers.pass(10s, 1, 0, 1e6);
  CHECK_FALSE(workers.meter.use(1, workers.sample(1)).still);
  workers.pass(30s, 1);
  CHECK(workers.meter.use(1, workers.sample(1)).still == 30s);
}

TEST_CASE("when all workers have been still for ten minutes that is told once in a round", "[use]") {
  Workers workers;
  const auto told = [&] { return workers.meter.to_be_told({0, 1}, workers.now); };
  CHECK_FALSE(workers.meter.to_be_told({}, workers.now));
  workers.pass(700s, 0.001, 1);
  CHECK_FALSE(told());  // one computes
  workers.pass(590s, 0, 0);
  CHECK_FALSE(told());
  workers.pass(10s, 0, 0);
  CHECK(told());
  CHECK_FALSE(told());
  workers.meter.begin_round();
  CHECK_FALSE(told());
  workers.pass(620s, 0, 0);
  CHECK(told());
}
