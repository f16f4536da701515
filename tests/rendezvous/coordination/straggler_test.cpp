#include "rendezvous/coordination/straggler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/soak.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

using Kind = PaceChange::Kind;

// What a rank needs for a step by itself, in microseconds.
struct Work {
  double compute = 5000, load = 500;
};

// A job in DDP whose nodes send windows one after the other.
class PacedJob {
 public:
  explicit PacedJob(int ranks, int per_node = 1, double jitter = 0.03, std::uint64_t seed = 1)
      : work(static_cast<std::size_t>(ranks)), per_node_(per_node), jitter_(jitter), random_(seed) {}

  // One window of all nodes.
  std::vector<PaceChange> window(std::uint64_t steps = 40) {
    std::vector<Work> took;
    double step = 0;
    for (const Work& one : work) {
      took.push_back({varied(one.compute, steps), varied(one.load, steps)});
      step = std::max(step, took.back().compute + took.back().load);
    }
    std::vector<PaceChange> out;
    for (std::size_t first = 0; first < work.size(); first += static_cast<std::size_t>(per_node_)) {
      std::vector<Pace> node;
      for (std::size_t rank = first; rank < std::min(first + static_cast<std::size_t>(per_node_), work.size()); ++rank)
        if (!silent.contains(static_cast<int>(rank)))
          node.push_back({static_cast<int>(rank), steps, total(took[rank].load, steps),
                          total(took[rank].compute, steps),
                          total(step - took[rank].compute - took[rank].load + 1000, steps)});
      for (const PaceChange& change : watch.on(node, now)) out.push_back(change);
    }
    now += std::max<Duration>(2s, std::chrono::microseconds(static_cast<std::int64_t>(step) * 40));
    return out;
  }
  std::vector<PaceChange> windows(int count, std::uint64_t steps = 40) {
    std::vector<PaceChange> out;
    for (int i = 0; i < count; ++i)
      for (const PaceChange& change : window(steps)) out.push_back(change);
    return out;
  }

  std::vector<Work> work;
  std::set<int> silent;
  TimePoint now = TimePoint(100s);
  StragglerWatch watch;

 private:
  static std::uint64_t total(double per_step, std::uint64_t steps) {
    return static_cast<std::uint64_t>(per_step * static_cast<double>(steps));
  }
  // The mean of so many steps, each with this standard deviation.
  double varied(double time, std::uint64_t steps) {
    std::normal_distribution<double> noise(1, jitter_ / std::sqrt(static_cast<double>(steps)));
    return time * std::max(0.1, noise(random_));
  }

  int per_node_;
  double jitter_;
  std::mt19937_64 random_;
};

std::vector<PaceChange> of_ranks(std::vector<PaceChange> changes) {
  std::erase_if(changes, [](const PaceChange& change) { return change.rank < 0; });
  return changes;
}

}  // namespace

TEST_CASE("one slow rank among equal ones is named once, with its ratio", "[straggler]") {
  PacedJob job(8, 4);
  CHECK(job.windows(10).empty());
  job.work[5].compute = 8000;
  CHECK(job.windows(3).empty());
  const std::vector<PaceChange> named = job.window();
  REQUIRE(named.size() == 1);
  CHECK(named[0].kind == Kind::straggler);
  CHECK(in_words(named[0], "node7") == "rank 5 (node7) computes 1.6x slower than the median, for 160 steps");
  CHECK(job.windows(20).empty());
  job.work[5].compute = 5000;
  CHECK(job.windows(2).empty());
  const std::vector<PaceChange> over = job.window();
  REQUIRE(over.size() == 1);
  CHECK(over[0].kind == Kind::over);
  CHECK(over[0].rank == 5);
  job.work[5].compute = 8000;
  CHECK(job.windows(4).size() == 1);
}

TEST_CASE("a little slower takes longer to be named, less than a quarter is nobody", "[straggler]") {
  PacedJob job(8, 4);
  job.work[2].compute = 6600;
  CHECK(job.windows(4).empty());
  CHECK(job.window().size() == 1);
  PacedJob other(8, 4);
  other.work[2].compute = 6000;
  CHECK(other.windows(100).empty());
}

TEST_CASE("a slow loader is named as one, and microseconds of loading are not", "[straggler]") {
  PacedJob job(3);
  for (Work& work : job.work) work.load = 20;
  job.work[2].load = 100;
  CHECK(job.windows(30).empty());
  for (Work& work : job.work) work.load = 1000;
  job.work[2].load = 3100;
  const std::vector<PaceChange> named = of_ranks(job.windows(10));
  REQUIRE(named.size() == 1);
  CHECK(in_words(named[0], "node1") == "rank 2 (node1) waits 3.1x longer for data than the median, for 160 steps");
  CHECK(in_words(named[0], "") == "rank 2 waits 3.1x longer for data than the median, for 160 steps");
  job.work[0].load = job.work[1].load = 0;
  CHECK(of_ranks(job.windows(10)).empty());  // compared with nothing, it goes on
}

TEST_CASE("a rank that is slow in both phases is named for the one in which it loses more", "[straggler]") {
  PacedJob job(8, 4);
  for (Work& work : job.work) work.load = 3000;
  job.work[2] = {8000, 9000};
  const std::vector<PaceChange> named = of_ranks(job.windows(20));
  REQUIRE(named.size() == 1);
  CHECK(named[0].phase == Activity::load);
  job.work[2] = {9500, 6000};  // still slow in both
  CHECK(of_ranks(job.windows(20)).empty());
}

TEST_CASE("if all become slower nobody is a straggler, and it is known", "[straggler]") {
  PacedJob job(4, 2);
  CHECK(job.windows(10).empty());
  for (Work& work : job.work) work.compute *= 2;
  const std::vector<PaceChange> slower = job.windows(10);
  REQUIRE(slower.size() == 1);
  CHECK(slower[0].kind == Kind::all_slower);
  CHECK(in_words(slower[0], "").substr(0, 43) == "the ranks compute 2.0x slower than before, ");
  CHECK(job.windows(20).empty());
  for (Work& work : job.work) work.compute /= 2;
  const std::vector<PaceChange> normal = job.windows(10);
  REQUIRE(normal.size() == 1);
  CHECK(normal[0].kind == Kind::all_normal);
}

TEST_CASE("where half of the ranks are slow, or all differ, nobody is a straggler", "[straggler]") {
  PacedJob half(8, 4);
  for (int rank = 0; rank < 4; ++rank) half.work[static_cast<std::size_t>(rank)].compute = 9000;
  CHECK(half.windows(30).empty());
  PacedJob uneven(8, 4);
  for (int rank = 0; rank < 8; ++rank) uneven.work[static_cast<std::size_t>(rank)].compute = 4000 + 700 * rank;
  CHECK(uneven.windows(30).empty());
}

TEST_CASE("single stalls name nobody", "[straggler]") {
  PacedJob job(4, 2);
  for (int i = 0; i < 50; ++i) {
    job.work[1].compute = i % 4 < 2 ? 500'000 : 5000;
    CHECK(of_ranks(job.window()).empty());
  }
}

TEST_CASE("of two ranks the slower one is named if the difference is clear", "[straggler]") {
  PacedJob job(2);
  job.work[1].compute = 6800;
  CHECK(job.windows(30).empty());
  job.work[1].compute = 9000;
  CHECK(job.windows(4).empty());
  REQUIRE(job.window().size() == 1);
  PacedJob alone(1);
  CHECK(alone.windows(30).empty());
}

TEST_CASE("ranks without beats are not compared, and those that go are forgotten", "[straggler]") {
  PacedJob job(4);
  job.work[3].compute = 9000;
  job.silent = {3};
  CHECK(job.windows(20).empty());
  job.silent = {};
  CHECK(job.windows(4).size() == 1);
  job.silent = {3};
  CHECK(job.windows(20).empty());
  job.silent = {};
  CHECK(job.windows(3).empty());  // as if it were new
  CHECK(job.window().size() == 1);
  job.silent = {0, 1, 2};  // there is nobody to compare it with
  const std::vector<PaceChange> alone = job.windows(30);
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].kind == Kind::over);
}

TEST_CASE("no more than sixteen ranks are named at the same time", "[straggler]") {
  PacedJob job(100, 8);
  for (std::size_t rank = 0; rank < 40; ++rank) job.work[rank].compute = 9000;
  CHECK(of_ranks(job.windows(10)).size() == StragglerWatch::kNamedMax);
}

TEST_CASE("windows that make no sense harm nobody", "[straggler]") {
  StragglerWatch watch;
  const TimePoint now(5s);
  CHECK(watch.on({}, now).empty());
  for (int i = 0; i < 20; ++i) {
    CHECK(watch.on({{0, 0, 5, 5, 5}, {1, 10, UINT64_MAX, UINT64_MAX, UINT64_MAX}, {2, UINT64_MAX, 1, 1, 1}}, now)
              .size() <= 2);
    CHECK(watch.on({{1, 10, 0, 0, 0}, {2, 10, 0, 0, 0}}, now).empty());
  }
  PacedJob job(3);
  job.work[1].compute = 9000;
  std::vector<PaceChange> named;
  for (int i = 0; i < 10; ++i) {
    job.watch.on({{7, 0, 5, 5, 5}, {8, 0, 0, 0, 0}}, job.now);
    for (const PaceChange& change : job.window()) named.push_back(change);
  }
  CHECK(named.size() == 1);
}

// Jobs of 2 to 64 ranks whose steps vary by up to 40 %, with stalls.
TEST_CASE("in random jobs nobody is named without reason", "[straggler]") {
  const int jobs = often(10'000);
  int named = 0;
  for (int i = 0; i < jobs; ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    std::mt19937_64 random(seed);
    const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
    const int per_node = 1 << up_to(3);
    const int ranks = 2 + up_to(1 << (1 + up_to(5)));
    PacedJob job(ranks, per_node, 0.01 * up_to(40), seed);
    const double load = 100 * up_to(100);
    for (Work& work : job.work) work.load = load;
    const auto steps = static_cast<std::uint64_t>(10 + up_to(90));
    for (int window = 0; window < 25; ++window) {
      const bool stalls = up_to(19) == 0;
      Work& one = job.work[static_cast<std::size_t>(up_to(static_cast<int>(job.work.size()) - 1))];
      const Work before = one;
      if (stalls) (up_to(1) ? one.compute : one.load) += 1000.0 * up_to(200);
      const bool someone = !of_ranks(job.window(steps)).empty();
      if (someone) UNSCOPED_INFO("seed " << seed << ", window " << window);
      named += someone;
      one = before;
    }
  }
  CHECK(named == 0);
}

TEST_CASE("in random jobs a rank that takes 1.6 times as long is always named soon, and nobody else", "[straggler]") {
  const int jobs = often(2000);
  int latest = 0;
  for (int i = 0; i < jobs; ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
    const int ranks = 3 + up_to(1 << (1 + up_to(5))), per_node = 1 << up_to(3);
    PacedJob job(ranks, per_node, 0.01 * up_to(20), seed);
    const auto steps = static_cast<std::uint64_t>(10 + up_to(90));
    job.windows(up_to(5), steps);
    const int slow = up_to(static_cast<int>(job.work.size()) - 1);
    const bool loads = up_to(1);
    for (Work& work : job.work) work.load = loads ? 5000 : 500;
    Work& work = job.work[static_cast<std::size_t>(slow)];
    (loads ? work.load : work.compute) *= 1.6;
    int needed = 0;
    std::vector<PaceChange> changes;
    for (; changes.empty() && needed < 30; ++needed) changes = of_ranks(job.window(steps));
    latest = std::max(latest, needed);
    REQUIRE(changes.size() == 1);
    REQUIRE(changes[0].rank == slow);
    REQUIRE(changes[0].phase == (loads ? Activity::load : Activity::compute));
  }
  CHECK(latest <= 25);  // of the usual four or five, where steps vary by a fifth
}
