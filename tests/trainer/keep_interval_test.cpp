#include "trainer/loop/keep_interval.h"

#include "tests/support/test.h"
#include "trainer/config/options.h"

namespace {

constexpr std::int64_t kByCost = SavingOptions::kMemoryStepsByCost;

}  // namespace

TEST_CASE("a chosen number of steps lies between two snapshots in memory, whatever they cost", "[keep_interval]") {
  for (const bool on_gpu : {false, true}) {
    const KeepInterval every_third(3, on_gpu), none(0, on_gpu);
    CHECK((every_third.is_due(3) && every_third.is_due(9) && !every_third.is_due(4)));
    CHECK_FALSE((none.is_due(1) || none.is_due(0)));
    for (std::int64_t done = 0; done < 3000; ++done) CHECK_FALSE(every_third.is_agreed_after(done));
  }
}

TEST_CASE("without a choice each step is kept, and on a GPU as many as stay below a share of the time",
          "[keep_interval]") {
  const KeepInterval on_cpu(kByCost, false);
  KeepInterval on_gpu(kByCost, true);
  CHECK((on_cpu.steps() == 1 && on_gpu.steps() == 1));
  CHECK_FALSE(on_cpu.is_agreed_after(16));
  CHECK(on_gpu.proposal(100ms, 1ms) == 1);
  CHECK(on_gpu.proposal(100ms, 2ms) == 1);
  CHECK(on_gpu.proposal(100ms, 9ms) == 5);
  CHECK(on_gpu.proposal(130us, 1ms) == 385);  // 2.6 us a step are its share
  CHECK(on_gpu.proposal(0s, 1h) == KeepInterval::kStepsMax);
  on_gpu.set(5);
  CHECK((on_gpu.is_due(10) && !on_gpu.is_due(11)));
}

TEST_CASE("the ranks agree soon, and then rarely", "[keep_interval]") {
  const KeepInterval interval(kByCost, true);
  std::vector<std::int64_t> agreed;
  for (std::int64_t done = 0; done < 3000; ++done)
    if (interval.is_agreed_after(done)) agreed.push_back(done);
  CHECK(agreed == std::vector<std::int64_t>{16, 128, 1024, 2048});
}
