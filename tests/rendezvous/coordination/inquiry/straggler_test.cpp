#include "rendezvous/coordination/inquiry/straggler.h"

#include <ctime>

#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

using Kind = PaceChange::Kind;
constexpr double kMs = 1000;  // microseconds

// What a rank needs for a step by itself, in microseconds.
struct Work {
  double compute = 5 * kMs, load = 0.5 * kMs;
};

// A job in DDP, step by step. Its nodes cut windows as an agent does, each at moments of its own.
class PacedJob {
 public:
  explicit PacedJob(int ranks, int per_node = 1, std::uint64_t seed = 1)
      : work(static_cast<std::size_t>(ranks)), sums_(work.size()), took_(work.size()), random_(seed) {
    for (std::size_t first = 0; first < work.size(); first += static_cast<std::size_t>(per_node))
      nodes_.push_back({first, std::min(first + static_cast<std::size_t>(per_node), work.size()),
                        now - std::chrono::microseconds(static_cast<std::int64_t>(random_() % 600'000))});
  }
  explicit PacedJob(int ranks, Work each, std::uint64_t seed = 1) : PacedJob(ranks, 1, seed) {
    std::fill(work.begin(), work.end(), each);
  }

  std::vector<PaceChange> steps(std::uint64_t count) {
    std::vector<PaceChange> out;
    while (count > 0) {
      const std::uint64_t at_once = std::clamp<std::uint64_t>(steps_in_a_look(), 1, count);
      pass(at_once);
      count -= at_once;
      for (const PaceChange& change : look()) out.push_back(change);
    }
    return out;
  }
  std::vector<PaceChange> seconds(double count) {
    std::vector<PaceChange> out;
    for (const TimePoint end = now + Duration(static_cast<std::int64_t>(count * 1e9)); now < end;)
      for (const PaceChange& change : steps(std::max<std::uint64_t>(1, steps_in_a_look()))) out.push_back(change);
    return out;
  }
  // The steps until something changes.
  std::uint64_t until_change(std::vector<PaceChange>& changes, std::uint64_t most) {
    for (std::uint64_t step = 1; step <= most; ++step)
      if (changes = steps(1); !changes.empty()) return step;
    return most + 1;
  }
  // In its next step.
  void stall(std::size_t rank, double compute, double load) {
    took_[rank].compute += compute;
    took_[rank].load += load;
  }

  std::vector<Work> work;
  double jitter = 0.03;  // of a step: log-normal
  double common_jitter = 0;
  std::set<int> silent;
  bool needs_long = false;
  TimePoint now = TimePoint(100s);
  StragglerWatch watch;

 private:
  struct Node {
    std::size_t first, end;
    TimePoint window_began;
    std::uint64_t steps = 0;
  };

  std::uint64_t steps_in_a_look() const {
    double slowest = 1;
    for (const Work& one : work) slowest = std::max(slowest, one.compute + one.load);
    return static_cast<std::uint64_t>(50 * kMs / slowest);
  }
  double varied(double time, std::uint64_t steps, double by) {
    const double count = static_cast<double>(steps);
    return count * time * (by > 0 ? std::exp(by / std::sqrt(count) * normal_(random_)) : 1);
  }
  void pass(std::uint64_t steps) {
    const double all = varied(1, steps, common_jitter) / static_cast<double>(steps);
    double longest = 0;
    for (std::size_t rank = 0; rank < work.size(); ++rank) {
      took_[rank].compute += all * varied(work[rank].compute, steps, jitter);
      took_[rank].load += varied(work[rank].load, steps, jitter);
      longest = std::max(longest, took_[rank].compute + took_[rank].load);
    }
    longest += 1 * kMs;  // the reduction itself
    for (std::size_t rank = 0; rank < work.size(); ++rank) {
      const Work took = std::exchange(took_[rank], {0, 0});
      Pace& sum = sums_[rank];
      sum.load_us += static_cast<std::uint64_t>(took.load);
      sum.compute_us += static_cast<std::uint64_t>(took.compute);
      sum.wait_us += static_cast<std::uint64_t>(longest - took.compute - took.load);
    }
    for (Node& node : nodes_) node.steps += steps;
    now += std::chrono::microseconds(static_cast<std::int64_t>(longest));
  }
  std::vector<PaceChange> look() {
    std::vector<PaceChange> out;
    for (Node& node : nodes_) {
      if (node.steps < 5 || now - node.window_began < 600ms) continue;
      std::vector<Pace> windows;
      for (std::size_t rank = node.first; rank < node.end; ++rank) {
        Pace window = std::exchange(sums_[rank], {});
        window.rank = static_cast<int>(rank);
        window.steps = node.steps;
        if (!silent.contains(window.rank)) windows.push_back(window);
      }
      node.steps = 0;
      node.window_began = now;
      for (const PaceChange& change : watch.on(windows, now, needs_long)) out.push_back(change);
    }
    return out;
  }

  std::vector<Pace> sums_;
  std::vector<Work> took_;
  std::vector<Node> nodes_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

PaceChange only(const std::vector<PaceChange>& changes) {
  REQUIRE(changes.size() == 1);
  return changes[0];
}

// The steps until rank 1, which is 3.3 times as slow from now on, is named.
std::uint64_t steps_until_named(PacedJob& job) {
  job.work[1].compute *= 3.3;
  std::vector<PaceChange> changes;
  const std::uint64_t steps = job.until_change(changes, 30);
  REQUIRE(only(changes).rank == 1);
  return steps;
}

std::vector<PaceChange> of_ranks(std::vector<PaceChange> changes) {
  std::erase_if(changes, [](const PaceChange& change) { return change.rank < 0; });
  return changes;
}

}  // namespace

TEST_CASE("one slow rank among equal ones is named once, with its ratio, until that is over", "[straggler]") {
  PacedJob job(8, 4);
  CHECK(job.seconds(20).empty());
  job.work[5].compute = 8 * kMs;
  CHECK(job.seconds(7).empty());
  const PaceChange named = only(job.seconds(5));
  CHECK(named.kind == Kind::straggler);
  CHECK_THAT(in_words(named, "node7"),
             Catch::Matches("rank 5 \\(node7\\) computes 1\\.6x slower than the median, for \\d+ steps, and 1\\.6x "
                            "slower than before"));
  CHECK(job.seconds(40).empty());
  job.work[5].compute = 5 * kMs;
  CHECK(job.seconds(4).empty());
  const PaceChange over = only(job.seconds(6));
  CHECK(over.kind == Kind::over);
  CHECK(over.rank == 5);
  CHECK(over.steps > named.steps);
  job.work[5].compute = 8 * kMs;
  CHECK(job.seconds(12).size() == 1);
}

TEST_CASE("a rank that is slow from the beginning is named without its time before", "[straggler]") {
  PacedJob job(4, {200 * kMs, 10 * kMs});
  job.work[1].compute = 660 * kMs;
  const PaceChange named = only(job.steps(30));
  CHECK(named.before_percent == 0);
  CHECK_THAT(in_words(named, ""), Catch::Matches("rank 1 computes 3\\.[234]x slower than the median, for 15 steps"));
}

TEST_CASE("in long steps a rank that takes more than twice as long is named within twenty of them", "[straggler]") {
  std::uint64_t latest = 0;
  for (const double factor : {2.2, 2.5, 3.3, 5.0, 20.0})
    for (const double slowed : {130.0, 200.0, 333.0, 2000.0})
      for (std::uint64_t before = 0; before < 24; ++before) {  // steps: the slowness begins anywhere in a window
        const bool loads = before % 2;
        const double usual = slowed / factor * kMs;
        PacedJob job(3, loads ? Work{20 * kMs, usual} : Work{usual, 1 * kMs}, before + 1);
        CAPTURE(factor, slowed, before);
        REQUIRE(job.steps(before).empty());
        (loads ? job.work[1].load : job.work[1].compute) *= factor;
        std::vector<PaceChange> changes;
        const std::uint64_t steps = job.until_change(changes, 30);
        REQUIRE(changes.size() == 1);
        REQUIRE(changes[0].rank == 1);
        REQUIRE(changes[0].phase == (loads ? Activity::load : Activity::compute));
        REQUIRE(changes[0].steps <= 20);
        latest = std::max(latest, steps);
      }
  CHECK(latest <= 20);
}

TEST_CASE("a first step that takes all ranks long does not delay a name", "[straggler]") {
  for (std::uint64_t before = 4; before < 60; ++before) {  // a first window
    PacedJob job(3, {60 * kMs, 1 * kMs}, before + 1);
    CAPTURE(before);
    for (std::size_t rank = 0; rank < 3; ++rank) job.stall(rank, 3000 * kMs, 3000 * kMs);
    REQUIRE(job.steps(1 + before).empty());
    REQUIRE(steps_until_named(job) <= 20);
  }
}

TEST_CASE("work that varies for all ranks, or for all others, does not hide a straggler", "[straggler]") {
  const bool with_it = GENERATE(true, false);  // the slow rank's work varies, too
  for (std::uint64_t before = 20; before < 50; ++before) {
    PacedJob job(3, 3, before + 1);  // one node: windows of the same steps
    for (Work& work : job.work) work.compute = 60 * kMs;
    CAPTURE(with_it, before);
    REQUIRE(job.steps(before).empty());
    std::vector<PaceChange> changes;
    std::uint64_t steps = 0;
    for (int turn = 0; changes.empty() && turn < 6; ++turn) {
      const double others = turn % 2 ? 100 * kMs : 60 * kMs;
      job.work[0].compute = job.work[2].compute = others;
      job.work[1].compute = with_it ? 3.5 * others : 210 * kMs;
      steps += std::min<std::uint64_t>(job.until_change(changes, 5), 5);
    }
    REQUIRE(changes.size() == 1);
    REQUIRE(changes[0].rank == 1);
    REQUIRE(steps <= 20);
  }
}

TEST_CASE("a rank that takes no longer than it often did needs long windows to be named", "[straggler]") {
  PacedJob job(3, {200 * kMs, 1 * kMs});
  for (int turn = 0; turn < 8; ++turn) {
    for (Work& work : job.work) work.compute = (turn % 2 ? 200 : 600) * kMs;
    REQUIRE(of_ranks(job.steps(15)).empty());
  }
  job.work[1].compute *= 2;
  CHECK(of_ranks(job.steps(25)).empty());
  CHECK(of_ranks(job.steps(30)).size() == 1);
}

TEST_CASE("where more follows than a line, a rank is named only after long windows", "[straggler]") {
  PacedJob job(3, {100 * kMs, 1 * kMs});
  job.needs_long = true;
  CHECK(job.steps(40).empty());
  job.work[1].compute *= 3.3;
  CHECK(job.steps(30).empty());
  CHECK(job.steps(30).size() == 1);
}

TEST_CASE("in long steps a rank that takes half as long again is named, but not within twenty of them", "[straggler]") {
  PacedJob job(3, {200 * kMs, 1 * kMs});
  CHECK(job.steps(20).empty());
  job.work[1].compute *= 1.5;
  CHECK(job.steps(25).empty());
  CHECK(job.steps(50).size() == 1);
}

TEST_CASE("a little slower takes longer to be named, less than a quarter is nobody", "[straggler]") {
  PacedJob job(8, 4);
  job.work[2].compute = 6.6 * kMs;
  CHECK(job.seconds(9).empty());
  CHECK(job.seconds(10).size() == 1);
  PacedJob other(8, 4);
  other.work[2].compute = 6 * kMs;
  CHECK(other.seconds(300).empty());
}

TEST_CASE("a slow loader is named as one, and microseconds of loading are not", "[straggler]") {
  PacedJob job(3);
  for (Work& work : job.work) work.load = 20;
  job.work[2].load = 100;
  CHECK(job.seconds(60).empty());
  for (Work& work : job.work) work.load = 1 * kMs;
  job.work[2].load = 3.1 * kMs;
  const PaceChange named = only(of_ranks(job.seconds(20)));
  CHECK_THAT(in_words(named, "node1"),
             Catch::Matches("rank 2 \\(node1\\) waits 3\\.\\dx longer for data than the median, for \\d+ steps, and "
                            "\\d+\\.\\dx longer than before"));
  CHECK_THAT(in_words(named, ""), Catch::StartsWith("rank 2 waits 3."));
  job.work[0].load = job.work[1].load = 0;
  CHECK(of_ranks(job.seconds(20)).empty());  // compared with nothing, it goes on
}

TEST_CASE("a rank that is slow in both phases is named for the one in which it loses more", "[straggler]") {
  const double steps = GENERATE(1.0, 40.0);  // short or long
  PacedJob job(8, Work{5 * kMs * steps, 3 * kMs * steps});
  job.work[2] = {8 * kMs * steps, 9 * kMs * steps};
  const PaceChange named = only(of_ranks(job.seconds(60)));
  CHECK(named.phase == Activity::load);
  job.work[2] = {9.5 * kMs * steps, 6 * kMs * steps};  // still slow in both
  CHECK(of_ranks(job.seconds(60)).empty());
}

TEST_CASE("if all become slower nobody is a straggler, and it is known", "[straggler]") {
  PacedJob job(4, 2);
  CHECK(job.seconds(20).empty());
  for (Work& work : job.work) work.compute *= 2;
  const PaceChange slower = only(job.seconds(30));
  CHECK(slower.kind == Kind::all_slower);
  CHECK(in_words(slower, "").substr(0, 43) == "the ranks compute 2.0x slower than before, ");
  CHECK(job.seconds(40).empty());
  for (Work& work : job.work) work.compute /= 2;
  const PaceChange normal = only(job.seconds(30));
  CHECK(normal.kind == Kind::all_normal);
}

TEST_CASE("however much slower all ranks become at once, nobody is named", "[straggler]") {
  for (const int ranks : {2, 3, 4, 9, 64})
    for (std::uint64_t before = 0; before < 40; ++before) {
      PacedJob job(ranks, {60 * kMs, 1 * kMs}, before + 1);
      CAPTURE(ranks, before);
      REQUIRE(job.steps(before).empty());
      for (Work& work : job.work) work.compute *= 4;
      REQUIRE(of_ranks(job.steps(60)).empty());
    }
}

TEST_CASE("where half of the ranks are slow, or all differ, nobody is a straggler", "[straggler]") {
  const double steps = GENERATE(1.0, 40.0);  // short or long
  PacedJob half(8, Work{5 * kMs * steps, 0.5 * kMs});
  for (int rank = 0; rank < 4; ++rank) half.work[static_cast<std::size_t>(rank)].compute *= 2.5;
  CHECK(half.seconds(120).empty());
  PacedJob uneven(8, Work{});
  for (int rank = 0; rank < 8; ++rank)
    uneven.work[static_cast<std::size_t>(rank)].compute = (4 + 0.7 * rank) * kMs * steps;
  CHECK(uneven.seconds(120).empty());
}

TEST_CASE("single stalls name nobody, whatever their length and their place in a window", "[straggler]") {
  for (const int ranks : {2, 4})
    for (const double step : {5.0, 100.0, 300.0, 1000.0})
      for (const double stall : {2.0, 30.0, 1000.0}) {  // steps
        PacedJob job(ranks, {step * kMs, 1 * kMs}, static_cast<std::uint64_t>(stall));
        CAPTURE(ranks, step, stall);
        for (int i = 0; i < 40; ++i) {
          job.stall(1, i % 2 ? stall * step * kMs : 0, i % 2 ? 0 : stall * step * kMs);
          const int apart = static_cast<int>(std::max(24.0, 4000 / step)) + i % 7;
          REQUIRE(of_ranks(job.steps(static_cast<std::uint64_t>(apart))).empty());
        }
      }
}

TEST_CASE("a machine that is busy for a few steps names nobody", "[straggler]") {
  for (const double factor : {2.0, 3.0, 10.0, 50.0})
    for (std::uint64_t before = 30; before < 60; ++before) {
      PacedJob job(4, {200 * kMs, 1 * kMs}, before);
      CAPTURE(factor, before);
      REQUIRE(job.steps(before).empty());
      job.work[1].compute *= factor;
      REQUIRE(job.steps(8).empty());
      job.work[1].compute /= factor;
      REQUIRE(job.steps(100).empty());
    }
}

TEST_CASE("of two ranks the one that became slower is named", "[straggler]") {
  const std::size_t slow = GENERATE(0u, 1u);
  PacedJob job(2);
  job.work[slow].compute = 5.2 * kMs;
  CHECK(job.seconds(20).empty());
  job.work[slow].compute = 6.9 * kMs;
  const PaceChange named = only(job.seconds(20));
  CHECK(named.rank == static_cast<int>(slow));
  CHECK(named.before_percent >= 125);
  PacedJob alone(1);
  CHECK(alone.seconds(60).empty());
}

TEST_CASE("of two ranks that always differed the slower one is named if the difference is clear", "[straggler]") {
  PacedJob job(2);
  job.work[1].compute = 6.9 * kMs;
  CHECK(job.seconds(120).empty());
  job.work[0].compute = 4.9 * kMs;
  CHECK(job.seconds(120).empty());
  PacedJob clear(2);
  clear.work[1].compute = 8 * kMs;
  CHECK(clear.seconds(20).size() == 1);
}

TEST_CASE("of two ranks nobody is named because the other one is faster for some seconds", "[straggler]") {
  PacedJob job(2);
  CHECK(job.seconds(60).empty());
  job.work[0].compute /= 2;
  CHECK(of_ranks(job.seconds(12)).empty());
  job.work[0].compute *= 2;
  CHECK(of_ranks(job.seconds(60)).empty());
}

TEST_CASE("of two ranks in long steps the slower one is named within twenty", "[straggler]") {
  for (std::uint64_t before = 0; before < 30; ++before) {
    PacedJob job(2, {60 * kMs, 1 * kMs}, before + 1);
    CAPTURE(before);
    REQUIRE(job.steps(before).empty());
    REQUIRE(steps_until_named(job) <= 20);
  }
}

TEST_CASE("ranks without beats are not compared, and those that go are forgotten", "[straggler]") {
  PacedJob job(4);
  job.work[3].compute = 9 * kMs;
  job.silent = {3};
  CHECK(job.seconds(40).empty());
  job.silent = {};
  CHECK(job.seconds(11).size() == 1);
  job.silent = {3};
  CHECK(job.seconds(40).empty());
  job.silent = {};
  CHECK(job.seconds(7).empty());  // as if it were new
  CHECK(job.seconds(5).size() == 1);
  job.silent = {0, 1, 2};  // there is nobody to compare it with
  const PaceChange alone = only(job.seconds(60));
  CHECK(alone.kind == Kind::over);
}

TEST_CASE("no more than sixteen ranks are named at the same time", "[straggler]") {
  PacedJob job(100, 8);
  for (std::size_t rank = 0; rank < 40; ++rank) job.work[rank].compute = 9 * kMs;
  CHECK(of_ranks(job.seconds(20)).size() == StragglerWatch::kNamedMax);
}

TEST_CASE("windows that make no sense harm nobody", "[straggler]") {
  StragglerWatch watch;
  const TimePoint now(5s);
  CHECK(watch.on({}, now).empty());
  for (int i = 0; i < 20; ++i) {
    CHECK(watch.on({{0, 0, 5, 5, 5}, {1, 10, UINT64_MAX, UINT64_MAX, UINT64_MAX}, {2, UINT64_MAX, 1, 1, 1}}, now)
              .size() <= 2);
    CHECK(watch.on({{1, 10, 0, 0, 0}, {2, 10, 0, 0, 0}, {2, 10, 0, 0, 0}}, now).empty());
  }
  PacedJob job(3);
  job.work[1].compute = 9 * kMs;
  std::vector<PaceChange> named;
  for (int i = 0; i < 10; ++i) {
    job.watch.on({{7, 0, 5, 5, 5}, {8, 0, 0, 0, 0}}, job.now);
    for (const PaceChange& change : job.seconds(2)) named.push_back(change);
  }
  CHECK(named.size() == 1);
}

TEST_CASE("a window is unusual for a rank if it is far above all that were usual", "[straggler]") {
  PaceComparison ranks;
  const auto takes = [&](std::uint64_t compute) {
    ranks.add({0, 1, 0, compute, 0});
    return ranks.is_unusual(0, 0);
  };
  for (const std::uint64_t compute : {2000u, 100u, 90u, 140u, 95u, 110u}) {  // the first one has the first step
    const bool is_unusual = takes(compute);
    CHECK(is_unusual == !ranks.usual(0, 0));
    ranks.add_to_usual(0, 0);
  }
  CHECK(ranks.usual(0, 0) == 100);
  CHECK_FALSE(takes(190));
  CHECK(takes(200));
  for (int i = 0; i < 16; ++i) takes(100), ranks.add_to_usual(0, 0);
  CHECK_FALSE(takes(120));
  CHECK(takes(130));
}

TEST_CASE("a window costs the same in a large job as in a small one", "[straggler][release-only]") {
  const auto cost_of_window = [](int ranks) {  // nanoseconds
    StragglerWatch watch;
    double best = 1e18;
    for (int turn = 0; turn < 12; ++turn) {
      const std::clock_t began = std::clock();
      int windows = 0;
      for (; windows < 24'000; windows += ranks)
        for (int rank = 0; rank < ranks; ++rank)
          watch.on({{rank, 10, 10'000, 2'000'000u + static_cast<unsigned>(rank), 90'000}}, TimePoint(100s));
      best = std::min(best, 1e9 * static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC / windows);
    }
    return best;
  };
  const double small = cost_of_window(100), large = cost_of_window(4000);
  INFO("a window of 100 ranks costs " << small << " ns, of 4,000 ranks " << large << " ns");
  CHECK(large < 8 * small);
}

namespace {

// What disturbs the ranks of a job without making one of them a straggler.
class Disturbance {
 public:
  Disturbance(PacedJob& job, std::mt19937_64& random) : job_(job), random_(random), usual_(job.work) {}

  // About once in a tenth of a second.
  void pass() {
    if (busy_until_ && job_.now >= *busy_until_) {
      job_.work = usual_;
      busy_until_.reset();
    }
    if (one_in(600)) job_.stall(rank(), 500 * kMs * exponential_(random_), 0);  // as of a garbage collector
    if (one_in(600)) job_.stall(rank(), 0, 500 * kMs * exponential_(random_));
    if (one_in(20'000)) job_.stall(rank(), 10'000 * kMs * exponential_(random_), 0);
    if (busy_until_ || !one_in(1200)) return;
    job_.work[rank()].compute *= 1 + 2 * share_(random_);  // another process has a part of the CPU for up to a second
    busy_until_ = job_.now + std::chrono::milliseconds(100 + random_() % 900);
  }

 private:
  bool one_in(unsigned times) { return random_() % times == 0; }
  std::size_t rank() { return random_() % job_.work.size(); }

  PacedJob& job_;
  std::mt19937_64& random_;
  const std::vector<Work> usual_;
  std::optional<TimePoint> busy_until_;
  std::exponential_distribution<double> exponential_{1};
  std::uniform_real_distribution<double> share_{0, 1};
};

// Steps of 1 ms to 3 s that vary by up to 40 %, ranks that differ by 15 %, stalls and busy machines.
void run_disturbed_job(std::uint64_t seed, std::chrono::seconds time) {
  std::mt19937_64 random(seed);
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  const int per_node = 1 << up_to(3), ranks = 2 + up_to(1 << up_to(5));
  PacedJob job(ranks, per_node, seed);
  job.jitter = 0.01 * up_to(40);
  job.common_jitter = 0.01 * up_to(50);
  const double step = kMs * std::pow(10, 0.01 * up_to(350)), load = step * 0.01 * up_to(50);
  for (Work& work : job.work) work = {step * (1 + 0.01 * up_to(15)), load};
  Disturbance disturbance(job, random);
  int named = 0;
  for (const TimePoint end = job.now + time; job.now < end;) {
    disturbance.pass();
    for (const PaceChange& change : of_ranks(job.seconds(0.1))) {
      UNSCOPED_INFO(in_words(change, "") << " of " << ranks << ", step " << step / kMs << " ms, jitter " << job.jitter);
      named += change.kind == Kind::straggler;
    }
  }
  REQUIRE(named == 0);
}

}  // namespace

TEST_CASE("in hours of disturbed jobs nobody is named without reason", "[straggler]") {
  Series("stragglers: five simulated hours of a job with stalls, jitter and busy machines: nobody is named", often(8),
         200)
      .run([](std::uint64_t seed) { run_disturbed_job(seed, 5h); });
}

TEST_CASE("in random jobs a rank that takes 1.6 times as long is always named soon, and nobody else", "[straggler]") {
  const int jobs = often(1000);
  double latest = 0;
  for (int i = 0; i < jobs; ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
    const int ranks = 2 + up_to(1 << (1 + up_to(5))), per_node = 1 << up_to(3);
    PacedJob job(ranks, per_node, seed);
    job.jitter = 0.01 * up_to(20);
    const bool loads = up_to(1);
    for (Work& work : job.work) (loads ? work.load : work.compute) = 8 * kMs;
    job.seconds(up_to(20));
    const std::size_t slow = random() % job.work.size();
    (loads ? job.work[slow].load : job.work[slow].compute) *= 1.6;
    const TimePoint since = job.now;
    std::vector<PaceChange> changes;
    while (changes.empty() && job.now < since + 60s) changes = of_ranks(job.seconds(0.5));
    latest = std::max(latest, std::chrono::duration<double>(job.now - since).count());
    REQUIRE(changes.size() == 1);
    REQUIRE(changes[0].rank == static_cast<int>(slow));
    REQUIRE(changes[0].phase == (loads ? Activity::load : Activity::compute));
  }
  CHECK(latest <= 30);  // of the usual eight to ten seconds
}
