#include "ddprun/shard_sampler.h"

#include "tests/support/test.h"
#include "tests/trainer/stages.h"

namespace {

using Shards = std::vector<std::int64_t>;

std::vector<std::int64_t> seen_by_all(const Shards& shards, ShardSampling s, const std::vector<Stage>& stages) {
  return seen_in_stages(3, stages, [&](int rank, int world_size) {
    s.rank = rank;
    s.world_size = world_size;
    return ShardSampler(shards, s);
  });
}

std::int64_t total(const Shards& shards) { return std::accumulate(shards.begin(), shards.end(), std::int64_t{0}); }

Shards random_shards(std::mt19937_64& random) {
  Shards result(1 + random() % 12);
  for (auto& records : result) records = static_cast<std::int64_t>(random() % 20);
  result[0] += 8;
  return result;
}

std::string words(const Shards& shards, const ShardSampling& s) {
  std::string result = "shards";
  for (const auto records : shards) result += " " + std::to_string(records);
  return result + ", seed " + std::to_string(s.seed) + (s.shuffle ? ", shuffled" : "") +
         (s.drop_last ? ", drop_last" : "") + ", mixed " + std::to_string(s.mixed_shards);
}

}  // namespace

TEST_CASE("every rank has whole shards where they can be divided, in another order each epoch", "[shards]") {
  const Shards shards(12, 10);
  std::set<std::vector<std::int64_t>> orders;
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::set<std::int64_t> shards_seen;
    for (int rank = 0; rank < 4; ++rank) {
      ShardSampler sampler(shards, {.rank = rank, .world_size = 4, .seed = 1});
      sampler.set_epoch(epoch);
      const auto indices = sampler.indices();
      REQUIRE(indices.size() == 30);
      for (std::size_t i = 0; i < indices.size(); i += 10) {
        const auto shard = indices[i] / 10;
        CHECK(shards_seen.insert(shard).second);
        CHECK(std::all_of(&indices[i], &indices[i] + 10, [&](auto index) { return index / 10 == shard; }));
        CHECK_FALSE(std::is_sorted(&indices[i], &indices[i] + 10));
      }
      orders.insert(indices);
    }
    CHECK(shards_seen.size() == 12);
  }
  CHECK(orders.size() == 16);
}

TEST_CASE("a rank of uneven shards shares only its first and its last one", "[shards]") {
  const Shards shards{5, 40, 1, 17, 0, 23, 9, 30, 12, 3};
  Shards ends(shards.size());
  std::inclusive_scan(shards.begin(), shards.end(), ends.begin());
  std::vector<int> ranks_at(shards.size());
  for (int rank = 0; rank < 3; ++rank) {
    std::set<std::size_t> mine;
    for (const auto index : ShardSampler(shards, {.rank = rank, .world_size = 3}).indices())
      mine.insert(static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), index) - ends.begin()));
    for (const auto shard : mine) ++ranks_at[shard];
  }
  // Two borders between three ranks, and the padding.
  CHECK(std::accumulate(ranks_at.begin(), ranks_at.end(), 0) <= 9 + 2 + 1);
}

TEST_CASE("mixed shards are shuffled together", "[shards]") {
  const auto indices = ShardSampler(Shards(4, 50), {.seed = 3, .mixed_shards = 2}).indices();
  for (const std::size_t half : {0, 100}) {
    std::set<std::int64_t> early;
    for (std::size_t i = half; i < half + 20; ++i) early.insert(indices[i] / 50);
    CHECK(early.size() == 2);
  }
  CHECK(counts(indices, 200) == std::vector<int>(200, 1));
}

TEST_CASE("without shuffling the records come in their order", "[shards]") {
  std::vector<std::int64_t> expected(15);
  std::iota(expected.begin(), expected.end(), 15);
  CHECK(ShardSampler({7, 0, 20, 3}, {.rank = 1, .world_size = 2, .shuffle = false, .mixed_shards = 2}).indices() ==
        expected);
}

TEST_CASE("an epoch of shards stopped and resumed on as many ranks goes on in the same order", "[shards]") {
  std::mt19937_64 random(1);
  for (int run = 0; run < 300; ++run) {
    const auto shards = random_shards(random);
    const ShardSampling s{.seed = random(),
                          .shuffle = random() % 4 != 0,
                          .drop_last = random() % 2 == 0,
                          .mixed_shards = 1 + static_cast<int>(random() % 3)};
    const int ranks = 1 + static_cast<int>(random() % 8);
    const auto steps = [&] { return static_cast<int>(random() % 8); };
    INFO(words(shards, s) << ", " << ranks << " ranks");
    REQUIRE(seen_by_all(shards, s, {{ranks, 3, steps()}, {ranks, 3, steps()}, {ranks, 3, kToTheEnd}}) ==
            seen_by_all(shards, s, {{ranks, 3, kToTheEnd}}));
  }
}

TEST_CASE("from 2 ranks to 3 to 1 within an epoch every record is seen once", "[shards]") {
  const Shards shards{100, 37, 64, 81, 12, 99};
  const auto seen = seen_by_all(shards, {.seed = 5}, {{2, 16, 4}, {3, 16, 3}, {1, 16, kToTheEnd}});
  REQUIRE(seen.size() == 393);
  // 393 is odd: two ranks alone would have had padding, at the end.
  CHECK(counts(seen, 393) == std::vector<int>(393, 1));
}

TEST_CASE("ranks that come and go see every record, and repeat or drop fewer than there are ranks", "[shards]") {
  std::mt19937_64 random(2);
  for (int run = 0; run < 500; ++run) {
    const auto shards = random_shards(random);
    const ShardSampling s{
        .seed = random(), .drop_last = random() % 2 == 0, .mixed_shards = 1 + static_cast<int>(random() % 3)};
    std::vector<Stage> stages(random() % 4);
    for (auto& stage : stages) stage = {1 + static_cast<int>(random() % 8), 2, static_cast<int>(random() % 5)};
    stages.push_back({1 + static_cast<int>(random() % 8), 3, kToTheEnd});
    INFO(words(shards, s) << ", " << stages.size() << " stages");
    const auto seen = counts(seen_by_all(shards, s, stages), total(shards));
    const auto missing = std::count(seen.begin(), seen.end(), 0);
    const auto repeated = std::accumulate(seen.begin(), seen.end(), 0) - total(shards) + missing;
    REQUIRE(missing < (s.drop_last ? stages.back().world_size : 1));
    REQUIRE(repeated < (s.drop_last ? 1 : 8));
  }
}

TEST_CASE("shards that cannot be dealt out are refused", "[shards]") {
  CHECK_THROWS_WITH(ShardSampler({}, {}), "cannot divide the shards among the ranks: they have no records.");
  CHECK_THROWS_WITH(ShardSampler({3}, {.world_size = 4, .drop_last = true}),
                    Contains("they have 3 records for 4 ranks, and drop_last drops them all"));
  CHECK_THROWS_WITH(ShardSampler({3}, {.rank = 4, .world_size = 4}), Contains("there is no rank 4 among 4"));
  CHECK_THROWS_WITH(ShardSampler({3}, {.mixed_shards = 0}), Contains("0 shards of 3 records cannot be mixed"));
  CHECK(ShardSampler({3}, {.rank = 3, .world_size = 4, .shuffle = false}).indices() == std::vector<std::int64_t>{0});
}

TEST_CASE("a place among other shards is refused", "[shards]") {
  ShardSampler saved({5, 6, 7}, {.seed = 1});
  saved.advance(2);
  const auto resumed = [&](Shards shards, const ShardSampling& s, const ShardSamplerState& state) {
    ShardSampler(std::move(shards), s).resume(state);
  };
  CHECK_NOTHROW(resumed({5, 6, 7}, {.seed = 1}, saved.state()));
  CHECK_THROWS_WITH(resumed({5, 7, 6}, {.seed = 1}, saved.state()), Contains("it was saved with other shards"));
  CHECK_THROWS_WITH(resumed({5, 6, 7}, {.seed = 2}, saved.state()), Contains("with seed 1, but here it is 2"));
  CHECK_THROWS_WITH(resumed({5, 6, 7}, {.seed = 1, .shuffle = false}, saved.state()), Contains("with shuffling"));
  CHECK_THROWS_WITH(resumed({5, 6, 7}, {.seed = 1, .mixed_shards = 2}, saved.state()), Contains("1 shards mixed"));
  auto impossible = saved.state();
  impossible.deals[0].taken = 19;
  CHECK_THROWS_WITH(resumed({5, 6, 7}, {.seed = 1}, impossible), Contains("its numbers are impossible"));
  CHECK_THROWS_WITH(resumed({5, 6, 7}, {.world_size = 2, .seed = 1}, impossible),
                    Contains("its numbers are impossible"));
  saved.set_epoch(1);
  CHECK_NOTHROW(resumed({5}, {.seed = 9}, saved.state()));
}
