#include "trainer/loop/next_character.h"

#include "rendezvous/base/error.h"
#include "tests/support/error_text.h"
#include "tests/support/test.h"

namespace {

// How often each of `scores` is chosen.
std::vector<int> chosen(const std::vector<double>& scores, const Sampling& sampling, int times) {
  SampleRng rng(7, 0, 0);
  std::vector<int> counts(scores.size());
  for (int i = 0; i < times; ++i) ++counts[static_cast<std::size_t>(next_character(scores, sampling, rng))];
  return counts;
}

}  // namespace

TEST_CASE("temperature 0 takes the highest score, of equal ones the first", "[next_character]") {
  CHECK(chosen({1, 3, 2}, {.temperature = 0}, 20) == std::vector<int>{0, 20, 0});
  CHECK(chosen({1, 3, 3}, {.temperature = 0}, 20) == std::vector<int>{0, 20, 0});
}

TEST_CASE("characters are drawn by the softmax of their scores", "[next_character]") {
  constexpr int kTimes = 10'000;
  const std::vector<int> counts = chosen({std::log(1.0), std::log(3.0), std::log(6.0)}, {.temperature = 1}, kTimes);
  CHECK(std::abs(counts[0] - kTimes / 10) < 200);
  CHECK(std::abs(counts[2] - kTimes * 6 / 10) < 200);
  const std::vector<int> warm = chosen({0, 1000}, {.temperature = 1000}, kTimes);
  CHECK(std::abs(warm[0] - 2689) < 200);  // 1 / (1 + e)
  CHECK(chosen({0, 1000}, {.temperature = 0.001}, 20) == std::vector<int>{0, 20});
}

TEST_CASE("top-k leaves the k highest scores, and more than there are all", "[next_character]") {
  const std::vector<double> equal{1, 1, 1, 0.9};
  CHECK(chosen(equal, {.temperature = 1, .top_k = 1}, 20) == std::vector<int>{20, 0, 0, 0});
  const std::vector<int> two = chosen({0, 1, 1, 0}, {.temperature = 100, .top_k = 2}, 100);
  CHECK(two[0] + two[3] == 0);
  CHECK(std::min(two[1], two[2]) > 20);
  CHECK(chosen(equal, {.top_k = 9}, 100) == chosen(equal, {}, 100));
}

TEST_CASE("scores of a model that has diverged are refused", "[next_character]") {
  SampleRng rng(0, 0, 0);
  CHECK_THAT(error_text<Error>([&] {
               next_character({0, std::nan("")}, {}, rng);
             }),
             Contains("its scores are not finite numbers"));
}
