#include "ddprun/sampler.h"

#include "tests/support/soak.h"
#include "tests/support/test.h"
#include "tests/trainer/stages.h"

namespace {

std::uint64_t fnv1a(std::uint64_t digest, const std::vector<std::int64_t>& numbers) {
  for (const auto number : numbers)
    for (int byte = 0; byte < 8; ++byte)
      digest = (digest ^ (static_cast<std::uint64_t>(number) >> 8 * byte & 0xff)) * 0x100000001b3;
  return digest;
}

// The digest is that of all ranks' indices, one after the other.
std::string line_for(Sampling sampling, std::int64_t epoch) {
  std::uint64_t digest = 0xcbf29ce484222325;
  std::size_t length = 0;
  for (sampling.rank = 0; sampling.rank < sampling.world_size; ++sampling.rank) {
    const auto indices = epoch_indices(sampling, epoch);
    if (sampling.rank == 0) length = indices.size();
    digest = fnv1a(digest, indices);
  }
  std::ostringstream line;
  line << sampling.dataset_size << ' ' << sampling.seed << ' ' << epoch << ' ' << sampling.world_size << ' '
       << sampling.shuffle << ' ' << sampling.drop_last << ' ' << length << ' ';
  line << std::hex;
  line.width(16);
  line.fill('0');
  line << digest;
  return line.str();
}

Sampling random_sampling(std::mt19937_64& random) {
  return {.dataset_size = 1 + static_cast<std::int64_t>(random() % 200),
          .rank = 0,
          .world_size = 1 + static_cast<int>(random() % 20),
          .seed = random(),
          .shuffle = random() % 4 != 0,
          .drop_last = random() % 2 == 0};
}

// The dumb twin: deal the shuffled samples, one to each rank in turn, until all have the same number.
std::vector<std::vector<std::int64_t>> dealt(const Sampling& s, std::int64_t epoch) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(s.dataset_size));
  std::iota(samples.begin(), samples.end(), 0);
  if (s.shuffle) samples = random_permutation(s.dataset_size, s.seed + static_cast<std::uint64_t>(epoch));
  std::vector<std::vector<std::int64_t>> by_rank(static_cast<std::size_t>(s.world_size));
  const std::size_t ranks = by_rank.size();
  for (std::size_t i = 0; i < samples.size() || i % ranks; ++i)
    by_rank[i % ranks].push_back(samples[i % samples.size()]);
  if (s.drop_last && samples.size() % ranks)
    for (auto& indices : by_rank) indices.pop_back();
  return by_rank;
}

std::vector<std::int64_t> seen_by_all(Sampling s, std::int64_t epoch, const std::vector<Stage>& stages) {
  return seen_in_stages(epoch, stages, [&](int rank, int world_size) {
    s.rank = rank;
    s.world_size = world_size;
    return DistributedSampler(s);
  });
}

}  // namespace

TEST_CASE("the order of the samples is that of PyTorch's DistributedSampler", "[sampler]") {
  std::ifstream golden(source_folder() + "/tests/trainer/testdata/sampler.txt");
  int lines = 0;
  for (std::string line; std::getline(golden, line); ++lines) {
    std::istringstream fields(line);
    Sampling s;
    std::int64_t epoch = 0;
    fields >> s.dataset_size >> s.seed >> epoch >> s.world_size >> s.shuffle >> s.drop_last;
    REQUIRE(line_for(s, epoch) == line);
  }
  CHECK(lines > 1500);
}

TEST_CASE("the ranks' parts are the shuffled samples, dealt one by one", "[sampler]") {
  std::mt19937_64 random(1);
  for (int run = 0; run < often(2000); ++run) {
    Sampling s = random_sampling(random);
    const auto epoch = static_cast<std::int64_t>(random() % 50);
    const auto by_rank = dealt(s, epoch);
    for (s.rank = 0; s.rank < s.world_size; ++s.rank) {
      INFO(line_for(s, epoch) << ", rank " << s.rank);
      REQUIRE(epoch_indices(s, epoch) == by_rank[static_cast<std::size_t>(s.rank)]);
    }
  }
}

TEST_CASE("an evaluation sees every sample once, whatever the number of ranks", "[sampler]") {
  for (const int ranks : {1, 2, 4, 7, 400}) {
    std::vector<int> seen(297);
    for (int rank = 0; rank < ranks; ++rank)
      for (const auto index : evaluation_indices(297, rank, ranks)) ++seen[static_cast<std::size_t>(index)];
    CHECK(seen == std::vector<int>(297, 1));
  }
}

TEST_CASE("a sampler at an epoch's beginning gives PyTorch's part of it", "[sampler]") {
  std::mt19937_64 random(2);
  for (int run = 0; run < 500; ++run) {
    Sampling s = random_sampling(random);
    if (s.dataset_size < s.world_size) s.drop_last = false;
    s.rank = static_cast<int>(random() % static_cast<unsigned>(s.world_size));
    const auto epoch = static_cast<std::int64_t>(random() % 50);
    DistributedSampler sampler(s);
    sampler.set_epoch(epoch);
    REQUIRE(sampler.indices() == epoch_indices(s, epoch));
  }
}

TEST_CASE("an epoch stopped and resumed on as many ranks goes on in the same order", "[sampler]") {
  std::mt19937_64 random(3);
  for (int run = 0; run < 500; ++run) {
    Sampling s = random_sampling(random);
    if (s.dataset_size < s.world_size) s.drop_last = false;
    const auto batch = static_cast<std::int64_t>(1 + random() % 9);
    const auto steps = [&] { return static_cast<int>(random() % 8); };
    const Stage last{s.world_size, batch, kToTheEnd};
    INFO(line_for(s, 4) << ", batch " << batch);
    REQUIRE(seen_by_all(s, 4, {{s.world_size, batch, steps()}, {s.world_size, batch, steps()}, last}) ==
            seen_by_all(s, 4, {last}));
  }
}

TEST_CASE("from 2 ranks to 3 to 1 within an epoch every sample is seen once", "[sampler]") {
  const Sampling s{.dataset_size = 1009, .seed = 5};
  const auto seen = seen_by_all(s, 7, {{2, 16, 11}, {3, 16, 5}, {1, 16, kToTheEnd}});
  CHECK(seen == random_permutation(1009, 5 + 7));
}

TEST_CASE("ranks that come and go within an epoch repeat only the order's head, at its end", "[sampler]") {
  std::mt19937_64 random(4);
  for (int run = 0; run < 1000; ++run) {
    Sampling s = random_sampling(random);
    std::vector<Stage> stages(1 + random() % 5);
    for (auto& stage : stages)
      stage = {1 + static_cast<int>(random() % 8), 1 + static_cast<std::int64_t>(random() % 9),
               static_cast<int>(random() % 6)};
    const int last_world = 1 + static_cast<int>(random() % 8);
    stages.push_back({last_world, 3, kToTheEnd});
    s.drop_last = s.drop_last && s.dataset_size >= 8;
    const auto seen = seen_by_all(s, 3, stages);
    auto order = s.shuffle ? random_permutation(s.dataset_size, s.seed + 3)
                           : epoch_indices({.dataset_size = s.dataset_size, .shuffle = false}, 0);
    INFO(line_for(s, 3) << ", " << stages.size() << " stages, " << seen.size() << " seen");
    for (std::size_t i = 0; i < seen.size(); ++i) REQUIRE(seen[i] == order[i % order.size()]);
    // A stage of the middle may have reached the end; its world then did the padding.
    if (!s.drop_last) REQUIRE(seen.size() >= order.size());
    REQUIRE(seen.size() + 8 > order.size());
    REQUIRE(seen.size() < order.size() + 8);
  }
}

TEST_CASE("setting the epoch a sampler is in keeps its place, and another one begins anew", "[sampler]") {
  DistributedSampler sampler({.dataset_size = 100, .world_size = 4});
  sampler.resume({.epoch = 3, .consumed = 40, .dataset_size = 100});
  sampler.set_epoch(3);
  CHECK(sampler.size() == 15);
  sampler.advance(15);
  CHECK(sampler.size() == 0);
  CHECK(sampler.indices().empty());
  sampler.set_epoch(4);
  CHECK(sampler.size() == 25);
}

TEST_CASE("fewer samples than ranks are repeated, or refused where drop_last leaves none", "[sampler]") {
  Sampling s{.dataset_size = 3, .rank = 6, .world_size = 7, .shuffle = false};
  CHECK(DistributedSampler(s).indices() == std::vector<std::int64_t>{0});
  CHECK(counts(seen_by_all(s, 0, {{7, 1, kToTheEnd}}), 3) == std::vector<int>{3, 2, 2});
  s.drop_last = true;
  CHECK_THROWS_WITH(
      DistributedSampler(s),
      "cannot divide the data set among the ranks: it has 3 samples for 7 ranks, and drop_last drops them all. Use "
      "fewer ranks, or let samples be repeated (drop_last = false).");
  CHECK_THROWS_WITH(DistributedSampler({.dataset_size = 0}), Contains("it has 0 samples, but 1 to"));
  CHECK_THROWS_WITH(DistributedSampler({.dataset_size = 9, .rank = 2, .world_size = 2}),
                    "cannot divide the data set among the ranks: there is no rank 2 among 2.");
}

TEST_CASE("a place in an epoch of another order is refused, between epochs any will do", "[sampler]") {
  DistributedSampler sampler({.dataset_size = 100, .seed = 1});
  const auto refusal = [&](const SamplerState& state) { return error_text([&] { sampler.resume(state); }); };
  CHECK_THAT(refusal({.epoch = 1, .consumed = 8, .dataset_size = 90, .seed = 1}),
             Contains("it was saved with 90 samples, but this data set has 100."));
  CHECK_THAT(refusal({.epoch = 1, .consumed = 8, .dataset_size = 100, .seed = 2}),
             Contains("it was saved with seed 2, but here it is 1."));
  CHECK_THAT(refusal({.epoch = 1, .consumed = 8, .dataset_size = 100, .seed = 1, .shuffle = false}),
             Contains("it was saved without shuffling."));
  CHECK_THAT(refusal({.epoch = 1, .consumed = -8, .dataset_size = 100, .seed = 1}), Contains("-8 samples"));
  CHECK(sampler.state() == SamplerState{.dataset_size = 100, .seed = 1});
  CHECK(refusal({.epoch = 9, .consumed = 0, .dataset_size = 90, .seed = 2}).empty());
  CHECK(sampler.epoch() == 9);
  CHECK_THROWS_WITH(sampler.advance(101),
                    "cannot advance the sampler by 101 samples: each rank has 100 left in this epoch.");
}
