// A world that treats a supervisor at random: workers that end well, fail, die slowly or are deaf, coordinators that
// answer late or stop everything, impatient people. Whatever the order, its promises hold.
#include <csignal>
#include <deque>
#include <random>
#include <set>
#include <utility>

#include "agent/supervisor.h"
#include "rendezvous/base/overloaded.h"
#include "tests/support/catch.h"
#include "tests/support/transcript.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

constexpr int kWorkers = 3;

class World {
 public:
  explicit World(unsigned seed) : random_(seed) {
    StopPolicy policy;
    if (roll(2)) policy.peer_exit_timeout = 60s;
    supervisor_ = Supervisor(policy);
  }

  // False: it is over.
  bool step() {
    if (!killed_ || held_by_kernel_ || sweeping_) now_ += std::chrono::seconds(roll(10));  // SIGKILL takes no time
    const auto deadline = supervisor_.next_deadline();
    const bool starting = !due_.empty() && std::holds_alternative<WorkerStarted>(due_.front());
    if (starting || (!due_.empty() && roll(4)))
      deliver();
    else if (deadline && now_ >= *deadline)
      feed(Tick{});
    else if (waiting_)
      form_round();
    else
      something_happens();
    return !finished_;
  }

  bool finished() const { return finished_; }

 private:
  int roll(int sides) { return static_cast<int>(random_() % static_cast<unsigned>(sides)); }

  void form_round() {
    waiting_ = false;
    deaf_ = roll(4) == 0;
    dying_.clear();
    feed(RoundFormed{seat_of(kWorkers, ++round_)});
    if (roll(8) == 0) return feed(RoundEnded{round_});  // another node did not confirm
    feed(RoundStarted{round_});
  }

  void deliver() {
    const Event event = due_.front();
    due_.pop_front();
    if (std::holds_alternative<Swept>(event) && !std::exchange(sweeping_, false)) return;  // it was given up
    const auto* exited = std::get_if<WorkerExited>(&event);
    if (exited && (exited->round != round_ || !running_.erase(exited->local_rank))) return;  // it had died before
    feed(event);
  }

  void something_happens() {
    const int what = roll(30);
    if (what == 0) return feed(Signalled{roll(2) ? SIGINT : SIGTERM});
    if (what == 1) return feed(RoundEnded{roll(2) ? round_ : round_ - 1, roll(2) == 0});
    if (what == 2) return feed(Tick{});
    if (what == 3 && roll(4) == 0) return feed(Isolated{});
    if (running_.empty()) return;
    const int rank = *std::next(running_.begin(), roll(static_cast<int>(running_.size())));
    if (what < 8 && dying_.insert(rank).second) {  // early news: its end follows some time later
      const rendezvous::ExitStatus status{.signal = SIGKILL};
      due_.push_back(WorkerExited{round_, rank, status});
      return feed(WorkerDying{round_, rank, status});
    }
    if (what < 20 || dying_.contains(rank)) return;
    running_.erase(rank);
    feed(WorkerExited{round_, rank, {.code = roll(4) == 0}});
  }

  void feed(const Event& event) {
    for (const Action& action : supervisor_.on(event, now_)) {
      INFO(to_string(event) << " -> " << to_string(action));
      CHECK_FALSE(finished_);
      obey(action);
    }
  }

  void obey(const Action& action) {
    std::visit(overloaded{
                   [&](const StartWorkers& a) { start(a.seat.round); },
                   [&](const SignalWorkers& a) { end_all(a.signal); },
                   [&](const SweepLeftovers& a) {
                     CHECK((running_.empty() || held_by_kernel_));
                     sweeping_ = true;
                     if (roll(4)) due_.push_back(Swept{a.round});  // else something is left for ever
                   },
                   [&](const EndSweep&) { CHECK(std::exchange(sweeping_, false)); },
                   [&](const AnnounceHeld&) { CHECK(held_by_kernel_); },
                   [&](const ReportFailure& a) { report(a); },
                   [&](const ReportInterrupted& a) {
                     due_.push_back(JobEnded{{rendezvous::Verdict::interrupted, a.signal, "", {}}});
                   },
                   [&](const ReportDone&) { due_.push_back(JobEnded{}); },
                   [&](const Rejoin&) {
                     CHECK(running_.empty());
                     CHECK_FALSE(sweeping_);
                     waiting_ = true;
                   },
                   [&](const Finish&) {
                     CHECK((running_.empty() || held_by_kernel_));
                     CHECK_FALSE(sweeping_);
                     finished_ = true;
                   },
                   [](const auto&) {},
               },
               action);
  }

  void start(int round) {
    CHECK(running_.empty());
    CHECK(started_.insert(round).second);  // no round, hence no worker of it, is started twice
    killed_ = held_by_kernel_ = false;
    for (int rank = kWorkers - 1; rank >= 0; --rank)
      due_.emplace_front(WorkerStarted{round, rank}), running_.insert(rank);
  }

  void end_all(int signal) {
    CHECK_FALSE((killed_ && signal == SIGTERM));  // politeness comes first
    killed_ |= signal == SIGKILL;
    if (deaf_ && signal != SIGKILL) return;
    held_by_kernel_ = signal == SIGKILL && roll(8) == 0;
    if (held_by_kernel_) return;
    for (const int rank : running_) due_.push_back(WorkerExited{round_, rank, {.signal = signal}});
  }

  void report(const ReportFailure& failure) {
    CHECK(reported_.insert(failure.round).second);  // one failure ends a round, the others are its consequences
    if (roll(3))
      due_.push_back(RoundEnded{round_});
    else
      due_.push_back(JobEnded{{rendezvous::Verdict::worker_failed, 0, "", {}}});
  }

  std::mt19937 random_;
  Supervisor supervisor_{{}};
  TimePoint now_{};
  std::deque<Event> due_;
  std::set<int> running_, dying_, started_, reported_;
  int round_ = 0;
  bool deaf_ = false, killed_ = false, held_by_kernel_ = false, sweeping_ = false, waiting_ = true, finished_ = false;
};

}  // namespace

TEST_CASE("no order of events starts a worker twice in a round or leaves one running at the end", "[supervisor]") {
  for (unsigned seed = 0; seed < 10'000; ++seed) {
    INFO("seed " << seed);
    World world(seed);
    for (int step = 0; step < 5000 && world.step(); ++step) {
    }
    REQUIRE(world.finished());
  }
}
