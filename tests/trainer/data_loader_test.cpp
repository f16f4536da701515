#include "ddprun/data_loader.h"

#include "ddprun/sampler.h"
#include "tests/support/test.h"
#include "tests/trainer/generated_data.h"

namespace {

using Sample = std::pair<std::int64_t, std::uint64_t>;
using Batch = std::vector<Sample>;

// What a random transform gives: the index and the third number drawn for it.
Sample transformed(std::int64_t index, SampleRng& rng) {
  rng();
  rng();
  return {index, rng()};
}
Batch identity(std::vector<Sample> samples) { return samples; }

template <class Loader>
std::vector<Batch> all_of(const Loader& loader, std::vector<std::int64_t> indices, std::int64_t epoch) {
  std::vector<Batch> result;
  auto batches = loader.epoch(std::move(indices), epoch);
  while (auto batch = batches.next()) {
    REQUIRE(batches.samples() == static_cast<std::int64_t>(batch->size()));
    result.push_back(std::move(*batch));
  }
  REQUIRE_FALSE(batches.next());
  return result;
}

}  // namespace

TEST_CASE("batches are the same whatever the number of threads and of batches ahead", "[loader]") {
  const DistributedSampler sampler({.dataset_size = 1003, .rank = 1, .world_size = 2, .seed = 9});
  const auto load = [&](int threads, int prefetch, std::uint64_t seed, std::int64_t epoch) {
    const DataLoader loader(transformed, identity,
                            {.batch_size = 8, .threads = threads, .prefetch = prefetch, .seed = seed});
    return all_of(loader, sampler.indices(), epoch);
  };
  const auto expected = load(0, 0, 5, 3);
  REQUIRE(expected.size() == 63);
  CHECK(expected.back().size() == 6);
  for (const int threads : {1, 2, 3, 8})
    for (const int prefetch : {0, 1, 2, 100}) {
      INFO(threads << " threads, " << prefetch << " ahead");
      REQUIRE(load(threads, prefetch, 5, 3) == expected);
    }
  CHECK(load(2, 0, 5, 4) != expected);
  CHECK(load(2, 0, 6, 3) != expected);
}

TEST_CASE("a sample is the same in batches of any size, and in any order", "[loader]") {
  auto indices = test::up_to(100);
  for (const std::int64_t size : {1, 7, 100}) {
    std::reverse(indices.begin(), indices.end());
    const DataLoader loader(transformed, identity, {.batch_size = size, .threads = 2, .seed = 3});
    for (const auto& batch : all_of(loader, indices, 5))
      for (const auto& sample : batch) {
        SampleRng rng(3, 5, sample.first);
        REQUIRE(sample == transformed(sample.first, rng));
      }
  }
}

TEST_CASE("batches hold the sampler's samples in its order, the last one what is left", "[loader]") {
  const DistributedSampler sampler({.dataset_size = 50, .seed = 2});
  for (const bool drop_last : {false, true}) {
    const DataLoader loader(transformed, identity, {.batch_size = 8, .drop_last = drop_last, .threads = 3});
    std::vector<std::int64_t> seen;
    for (const auto& batch : all_of(loader, sampler.indices(), sampler.epoch()))
      for (const auto& sample : batch) seen.push_back(sample.first);
    auto expected = sampler.indices();
    if (drop_last) expected.resize(48);
    CHECK(seen == expected);
  }
}

TEST_CASE("an epoch resumed in its midst loads what an undisturbed one would have", "[loader]") {
  const DataLoader loader(transformed, identity, {.batch_size = 4, .threads = 2, .seed = 1});
  DistributedSampler sampler({.dataset_size = 203, .rank = 1, .world_size = 2});
  sampler.set_epoch(6);
  auto rest = all_of(loader, sampler.indices(), 6);
  SamplerState saved;
  {
    auto batches = loader.epoch(sampler);
    for (int step = 0; step < 7; ++step) {
      REQUIRE(batches.next());
      sampler.advance(batches.samples());
    }
    saved = sampler.state();
  }
  DistributedSampler resumed({.dataset_size = 203, .rank = 1, .world_size = 2});
  resumed.resume(saved);
  rest.erase(rest.begin(), rest.begin() + 7);
  CHECK(all_of(loader, resumed.indices(), resumed.epoch()) == rest);
}

TEST_CASE("at most the batch in hand and those ahead are in memory", "[loader]") {
  struct Counted {
    explicit Counted(std::atomic<int>& l) : living(&l) { ++l; }
    Counted(Counted&& other) noexcept : living(std::exchange(other.living, nullptr)) {}
    Counted& operator=(Counted&&) = delete;
    ~Counted() {
      if (living) --*living;
    }
    std::atomic<int>* living;
  };
  std::atomic<int> living{0}, loaded{0};
  const DataLoader loader(
      [&](std::int64_t index, SampleRng&) {
        ++loaded;
        return index;
      },
      [&](const std::vector<std::int64_t>&) { return Counted(living); },
      {.batch_size = 2, .threads = 4, .prefetch = 3});
  auto batches = loader.epoch(test::up_to(200), 0);
  int most = 0;
  for (int step = 1; auto batch = batches.next(); ++step) {
    if (step == 10) {  // nothing is taken for a while: the threads fill what there is room for, and no more
      CHECK(test::eventually([&] { return loaded == (10 + 3) * 2 && living == 4; }, 60s));
    }
    most = std::max(most, living.load());
    REQUIRE(loaded <= (step + 3) * 2);
  }
  CHECK(most <= 4);
  CHECK(loaded == 200);
}

TEST_CASE("what a thread throws reaches the caller in its batch's turn, with the sample's index", "[loader]") {
  const auto get = [](std::int64_t index, SampleRng& rng) {
    if (index == 42) throw std::runtime_error("the picture is torn.\nBacktrace: ...");
    if (index == 70) throw 70;
    return transformed(index, rng);
  };
  for (const int threads : {0, 1, 4}) {
    const DataLoader loader(get, identity, {.batch_size = 4, .threads = threads});
    auto batches = loader.epoch(test::up_to(100), 7);
    for (int i = 0; i < 10; ++i) REQUIRE(batches.next());
    for (int again = 0; again < 2; ++again)
      CHECK(error_text([&] { batches.next(); }) == "cannot load sample 42 of epoch 7: the picture is torn.");
    auto others = loader.epoch({70}, 0);
    CHECK(error_text([&] { others.next(); }) == "cannot load sample 70 of epoch 0: an exception of unknown type.");
    const DataLoader odd(transformed,
                         [](const std::vector<Sample>&) -> int { throw std::runtime_error("sizes differ"); },
                         {.batch_size = 4, .threads = threads});
    auto third = odd.epoch({5, 6, 7}, 1);
    CHECK(error_text([&] { third.next(); }) ==
          "cannot collate the batch of epoch 1 that begins with sample 5: sizes differ.");
  }
}

TEST_CASE("a loader left in mid-epoch stops within the samples under way", "[loader]") {
  std::atomic<int> loaded{0}, under_way{0};
  const DataLoader loader(
      [&](std::int64_t index, SampleRng&) {
        ++under_way;
        ++loaded;
        std::this_thread::sleep_for(5ms);  // a slow disk: a batch takes minutes
        --under_way;
        return index;
      },
      [](const std::vector<std::int64_t>& samples) { return samples.size(); }, {.batch_size = 50'000, .threads = 3});
  const auto began = std::chrono::steady_clock::now();
  {
    const auto batches = loader.epoch(test::up_to(400'000), 0);
    REQUIRE(test::eventually([&] { return loaded > 2; }, 60s));
  }
  CHECK(std::chrono::steady_clock::now() - began < 60s);
  CHECK(under_way == 0);
  CHECK(loaded < 50'000);
}

TEST_CASE("batches live on when their loader is gone, and may be move-only", "[loader]") {
  auto batches = [] {
    const DataLoader loader([](std::int64_t index, SampleRng&) { return std::make_unique<std::int64_t>(index); },
                            [](std::vector<std::unique_ptr<std::int64_t>> samples) { return std::move(samples[0]); },
                            {.threads = 2});
    return loader.epoch({7, 8}, 0);
  }();
  CHECK(**batches.next() == 7);
  CHECK(**batches.next() == 8);
  CHECK_FALSE(batches.next());
}

TEST_CASE("each thread begins with the caller's function", "[loader]") {
  std::mutex mutex;
  std::set<std::thread::id> begun, loading;
  const auto note = [&](std::set<std::thread::id>& in) {
    const std::lock_guard lock(mutex);
    in.insert(std::this_thread::get_id());
  };
  const auto get = [&](std::int64_t index, SampleRng&) {
    note(loading);
    return index;
  };
  const auto count = [](const std::vector<std::int64_t>& samples) { return samples.size(); };
  const DataLoader loader(get, count, {.threads = 3, .thread_begins = [&] { note(begun); }});
  {
    auto batches = loader.epoch(test::up_to(100), 0);
    while (batches.next()) continue;
  }
  CHECK(begun.size() == 3);
  CHECK(std::includes(begun.begin(), begun.end(), loading.begin(), loading.end()));

  const DataLoader broken(get, count,
                          {.threads = 2, .thread_begins = [] { throw std::runtime_error("no such node"); }});
  auto batches = broken.epoch(test::up_to(100), 0);
  CHECK(error_text([&] { batches.next(); }) == "cannot start a thread that loads data: no such node.");
}

TEST_CASE("options that cannot be are refused", "[loader]") {
  const auto refusal = [](const LoaderOptions& options) {
    return error_text([&] { const DataLoader loader(transformed, identity, options); });
  };
  CHECK(refusal({.batch_size = 0}) == "cannot load data: batch_size is 0 and has to be from 1 to 2147483648.");
  CHECK_THAT(refusal({.threads = -1}), Contains("threads is -1 and has to be from 0 to 256"));
  CHECK_THAT(refusal({.prefetch = 5000}), Contains("prefetch is 5000"));
  CHECK(refusal({}).empty());
  const DataLoader loader(transformed, identity, {.threads = 2});
  CHECK(all_of(loader, {}, 0).empty());
}

// A changed number would change the training of everybody who resumes with a newer ddprun.
TEST_CASE("a sample's random numbers stay what they are", "[loader]") {
  SampleRng rng(1, 2, 3);
  std::vector<std::uint64_t> numbers(3);
  for (auto& number : numbers) number = rng();
  CHECK(numbers == std::vector<std::uint64_t>{0xb534339048927417, 0x4e0990f2bfdc91ee, 0xf0362447af87e1d9});
}

TEST_CASE("random numbers are even, and differ by seed, epoch and sample", "[loader]") {
  std::set<std::uint64_t> first;
  for (int seed = 0; seed < 10; ++seed)
    for (int epoch = 0; epoch < 10; ++epoch)
      for (int index = 0; index < 10; ++index)
        first.insert(SampleRng(static_cast<std::uint64_t>(seed), epoch, index)());
  CHECK(first.size() == 1000);
  std::map<std::int64_t, int> counts;
  double sum = 0;
  for (int index = 0; index < 100'000; ++index) {
    SampleRng rng(0, 0, index);
    ++counts[rng.below(10)];
    sum += rng.uniform();
  }
  CHECK(counts.size() == 10);
  for (const auto& [digit, count] : counts) CHECK(std::abs(count - 10'000) < 500);  // five standard deviations
  CHECK(std::abs(sum - 50'000) < 500);
}
