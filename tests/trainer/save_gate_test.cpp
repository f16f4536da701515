// Ranks that are asked to save stop at one step, whatever the distance between them and whenever they hear of it.
#include "trainer/ddp/snapshot/save_gate.h"

#include "rendezvous/store/server.h"
#include "tests/support/test.h"

namespace {

constexpr auto kLimit = 20s;

// Ranks whose steps hold together: none is further than `ahead` steps before the last one, as collectives do it.
class Job {
 public:
  // `points`: further ones after each step.
  Job(int ranks, std::uint64_t first_step, std::uint64_t ahead, std::uint64_t points, unsigned seed)
      : first_(first_step), ahead_(ahead), points_(points), seed_(seed), ranks_(static_cast<std::size_t>(ranks)) {}

  // At which position each of them saved.
  std::vector<std::uint64_t> run() {
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].done = first_ - 1;
      threads.emplace_back([this, rank] { train(rank); });
      threads.emplace_back([this, rank] { agree(rank); });
    }
    for (auto& thread : threads) thread.join();
    std::vector<std::uint64_t> saved;
    for (const Rank& rank : ranks_) saved.push_back(rank.saved_at);
    return saved;
  }

 private:
  struct Rank {
    SaveGate gate;
    std::atomic<std::uint64_t> done = 0;
    std::uint64_t saved_at = 0;
  };
  std::mt19937 random(std::size_t rank, unsigned what) const {
    return std::mt19937(seed_ * 1000 + static_cast<unsigned>(rank) * 10 + what);
  }
  std::uint64_t slowest() const {
    std::uint64_t least = UINT64_MAX;
    for (const Rank& rank : ranks_) least = std::min(least, rank.done.load());
    return least;
  }
  void train(std::size_t rank) {
    auto chance = random(rank, 1);
    Rank& self = ranks_[rank];
    for (std::uint64_t step = first_; self.saved_at == 0; ++step) {
      while (step > slowest() + ahead_) std::this_thread::yield();
      if (chance() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(chance() % 100));
      self.done = step;
      if (self.gate.reached(step, kLimit)) self.saved_at = SaveGate::position(step);
      for (std::uint64_t point = 1; point <= points_ && self.saved_at == 0; ++point) {
        if (chance() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(chance() % 100));
        if (self.gate.reached_between(kLimit)) self.saved_at = SaveGate::position(step, point);
      }
    }
    self.done = UINT64_MAX;
  }
  void agree(std::size_t rank) {
    auto chance = random(rank, 2);
    std::this_thread::sleep_for(std::chrono::microseconds(chance() % 5000));
    Client store({.host = "127.0.0.1", .port = server_.port(), .timeout = kLimit});
    const SaveGate::Position stop = ranks_[rank].gate.close();
    offer_stop(store, "t/", static_cast<int>(rank), static_cast<int>(ranks_.size()), {stop});
    ranks_[rank].gate.open_up_to(agreed_stop(store, "t/", kLimit).value().at);
  }

  Server server_{{.address = "127.0.0.1"}};
  std::uint64_t first_, ahead_, points_;
  unsigned seed_;
  std::vector<Rank> ranks_;
};

}  // namespace

TEST_CASE("ranks save at one step, however far apart they are and whenever each of them hears of it", "[save]") {
  const std::uint64_t ahead = GENERATE(1, 5);  // 1: a collective in every step
  const std::uint64_t points = GENERATE(0, 3);
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto saved = Job(4, 101, ahead, points, seed).run();
    CAPTURE(seed, saved);
    CHECK(std::count(saved.begin(), saved.end(), saved[0]) == 4);
    CHECK(saved[0] >= SaveGate::position(101));
  }
}

TEST_CASE("ranks stop between two steps, too, at a point that none of them has passed", "[save]") {
  SaveGate gate;
  CHECK_FALSE(gate.reached(7, 0s));
  CHECK_FALSE(gate.reached_between(0s));
  CHECK(gate.close() == SaveGate::position(7, 2));
  gate.open_up_to(SaveGate::position(7, 3));
  CHECK_FALSE(gate.reached_between(0s));
  CHECK(gate.reached_between(0s));
  CHECK(SaveGate::position(7, 1) > SaveGate::position(7));
  CHECK(SaveGate::position(8) > SaveGate::position(7, 1000));
}

TEST_CASE("ranks that have told no step yet stop at a point before it, too", "[save]") {
  SaveGate gate;
  CHECK(gate.close() == 0);
  gate.open_up_to(SaveGate::kFirst);
  CHECK(gate.reached_between(0s));
}

TEST_CASE("points beyond the last that can be counted never reach the next step", "[save]") {
  SaveGate gate;
  gate.reached(7, 0s);
  for (int i = 0; i < 70'000; ++i) CHECK_FALSE(gate.reached_between(0s));
  CHECK(gate.close() == SaveGate::position(8));
  gate.open_up_to(SaveGate::position(8));
  CHECK_FALSE(gate.reached_between(0s));
  CHECK(gate.reached(8, 0s));
}

TEST_CASE("ranks that have told no step yet save at the first one", "[save]") {
  SaveGate gate;
  CHECK(gate.close() == 0);
  gate.open_up_to(SaveGate::kFirst);
  CHECK(gate.reached(70, 0s));
}

TEST_CASE("the training thread waits while the ranks agree, and goes on to the agreed step", "[save]") {
  SaveGate gate;
  CHECK_FALSE(gate.reached(7, 0s));
  CHECK(gate.close() == SaveGate::position(7, 1));  // it is in the next step
  std::atomic<bool> agreed = false;
  std::thread others([&] {
    agreed = true;
    gate.open_up_to(SaveGate::position(9));
  });
  CHECK_FALSE(gate.reached(8, kLimit));
  CHECK(agreed);
  others.join();
  CHECK(gate.reached(9, 0s));
  CHECK(gate.reached(9, 0s));
}

TEST_CASE("ranks that cannot agree say why, and none waits for ever", "[save]") {
  SaveGate timed_out, refused;
  timed_out.close();
  CHECK_THROWS_WITH(timed_out.reached(1, 10ms),
                    "cannot save before the job stops: the ranks have not agreed in time at "
                    "which step. What was done since the last snapshot is lost.");
  refused.close();
  refused.fail("the store is gone");
  CHECK_THROWS_WITH(refused.reached(1, kLimit), Contains("cannot save before the job stops: the store is gone."));
  const Server server({.address = "127.0.0.1"});
  Client store({.host = "127.0.0.1", .port = server.port()});
  offer_stop(store, "t/", 0, 2, {5});
  CHECK_FALSE(agreed_stop(store, "t/", 50ms));  // rank 1 is dead
  offer_stop(store, "t/", 1, 2, {4});
  CHECK(agreed_stop(store, "t/", kLimit).value().at == 5u);
}

TEST_CASE("ranks leave after a save only if all were asked to, and one that gives up decides for all", "[save]") {
  const Server server({.address = "127.0.0.1"});
  Client store({.host = "127.0.0.1", .port = server.port()});
  offer_stop(store, "mixed/", 0, 2, {5, true});
  offer_stop(store, "mixed/", 1, 2, {9, false});
  CHECK(agreed_stop(store, "mixed/", kLimit).value().at == 9u);
  CHECK_FALSE(agreed_stop(store, "mixed/", kLimit).value().ends);
  CHECK(give_up_stop(store, "mixed/").at == 9u);  // too late
  offer_stop(store, "late/", 0, 2, {5, false});
  CHECK(give_up_stop(store, "late/").at == 0u);
  offer_stop(store, "late/", 1, 2, {7, false});
  CHECK(agreed_stop(store, "late/", kLimit).value().at == 0u);
}

TEST_CASE("a gate that is opened again stops nobody until it is closed", "[save]") {
  SaveGate gate;
  gate.close();
  gate.open_up_to(SaveGate::kFirst);
  CHECK(gate.reached(1, 0s));
  gate.reopen();
  CHECK_FALSE(gate.reached(2, 0s));
  CHECK(gate.close() == SaveGate::position(2, 1));
}
