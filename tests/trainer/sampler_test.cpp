#include "ddprun/sampler.h"

#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "tests/support/catch.h"

using namespace ddprun;

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

// The dumb twin: deal the shuffled cards, one to each rank in turn, until all have the same number.
std::vector<std::vector<std::int64_t>> dealt(const Sampling& s, std::int64_t epoch) {
  std::vector<std::int64_t> cards(static_cast<std::size_t>(s.dataset_size));
  std::iota(cards.begin(), cards.end(), 0);
  if (s.shuffle) cards = random_permutation(s.dataset_size, s.seed + static_cast<std::uint64_t>(epoch));
  std::vector<std::vector<std::int64_t>> hands(static_cast<std::size_t>(s.world_size));
  const std::size_t ranks = hands.size();
  for (std::size_t i = 0; i < cards.size() || i % ranks; ++i) hands[i % ranks].push_back(cards[i % cards.size()]);
  if (s.drop_last && cards.size() % ranks)
    for (auto& hand : hands) hand.pop_back();
  return hands;
}

}  // namespace

TEST_CASE("the order of the samples is that of PyTorch's DistributedSampler", "[sampler]") {
  std::ifstream golden(DDPRUN_SOURCE_DIR "/tests/trainer/testdata/sampler.txt");
  int lines = 0;
  for (std::string line; std::getline(golden, line); ++lines) {
    std::istringstream fields(line);
    Sampling s;
    std::int64_t epoch = 0;
    fields >> s.dataset_size >> s.seed >> epoch >> s.world_size >> s.shuffle >> s.drop_last;
    REQUIRE(line_for(s, epoch) == line);
  }
  CHECK(lines > 1000);
}

TEST_CASE("the ranks' parts are a dealt pack of cards", "[sampler]") {
  std::mt19937_64 random(1);
  for (int run = 0; run < 2000; ++run) {
    Sampling s = random_sampling(random);
    const auto epoch = static_cast<std::int64_t>(random() % 50);
    const auto hands = dealt(s, epoch);
    for (s.rank = 0; s.rank < s.world_size; ++s.rank) {
      INFO(line_for(s, epoch) << ", rank " << s.rank);
      REQUIRE(epoch_indices(s, epoch) == hands[static_cast<std::size_t>(s.rank)]);
    }
  }
}

TEST_CASE("every epoch has an order of its own", "[sampler]") {
  const Sampling s{.dataset_size = 100};
  CHECK(epoch_indices(s, 0) != epoch_indices(s, 1));
  CHECK(epoch_indices(s, 1) == epoch_indices(s, 1));
}

TEST_CASE("an evaluation sees every sample once, whatever the number of ranks", "[sampler]") {
  for (const int ranks : {1, 2, 4, 7, 400}) {
    std::vector<int> seen(297);
    for (int rank = 0; rank < ranks; ++rank)
      for (const auto index : evaluation_indices(297, rank, ranks)) ++seen[static_cast<std::size_t>(index)];
    CHECK(seen == std::vector<int>(297, 1));
  }
}
