// A supervisor under random events: workers that end well, fail, die slowly or ignore SIGTERM, coordinators that answer
// late or stop everything, impatient people. Whatever the order, its promises hold.
#include "agent/round/supervisor.h"
#include "rendezvous/base/overloaded.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"
#include "tests/support/transcript.h"

namespace {

constexpr int kWorkers = 3;
constexpr int kPreempted = 31;

class Simulation {
 public:
  explicit Simulation(unsigned seed) : random_(seed) {
    StopPolicy policy;
    if (roll(2)) policy.peer_exit_timeout = 60s;
    if (roll(2)) policy.preempt_exit_code = kPreempted;
    code_is_known_ = policy.preempt_exit_code.has_value();
    supervisor_ = Supervisor(policy);
  }

  // False: it is over.
  bool step() {
    if (!killed_ || held_by_kernel_ || sweeping_) now_ += std::chrono::seconds(roll(10));  // SIGKILL takes no time
    const auto deadline = supervisor_.next_deadline();
    const bool starting = !due_.empty() && std::holds_alternative<WorkerStarted>(due_.front());
    if (starting || (!due_.empty() && roll(4)))
      deliver();
    else if (to_start_ < kWorkers && roll(4))
      start_one();
    else if (deadline && now_ >= *deadline)
      feed(Tick{});
    else if (waiting_)
      form_round();
    else
      random_event();
    return !finished_;
  }

  bool finished() const { return finished_; }

 private:
  int roll(int sides) { return static_cast<int>(random_() % static_cast<unsigned>(sides)); }

  void form_round() {
    waiting_ = false;
    ignores_sigterm_ = roll(4) == 0;
    dying_.clear();
    feed(RoundFormed{seat_of(kWorkers, ++round_)});
    if (roll(8) == 0) return feed(RoundEnded{round_});  // another node did not confirm
    feed(RoundStarted{round_});
  }

  void deliver() {
    const Event event = due_.front();
    due_.pop_front();
    const auto* swept = std::get_if<Swept>(&event);
    if (swept && (swept->round != round_ || !std::exchange(sweeping_, false))) return;  // it was given up
    const auto* exited = std::get_if<WorkerExited>(&event);
    if (exited && (exited->round != round_ || !running_.erase(exited->local_rank))) return;  // it had died before
    feed(event);
  }

  void random_event() {
    const int what = roll(30);
    if (what == 0) return feed(Signalled{roll(2) ? SIGINT : SIGTERM});
    if (what == 1) return feed(RoundEnded{roll(2) ? round_ : round_ - 1, roll(2) == 0});
    if (what == 2) return feed(Tick{});
    if (what == 3 && roll(4) == 0) return feed(Isolated{});
    if (running_.empty()) return;
    const int rank = *std::next(running_.begin(), roll(static_cast<int>(running_.size())));
    if (what < 8 && dying_.insert(rank).second) {  // early news: its end follows some time later
      const ExitStatus status{.signal = SIGKILL};
      due_.push_back(WorkerExited{round_, rank, status});
      return feed(WorkerDying{round_, rank, status});
    }
    if (what < 20 || dying_.contains(rank)) return;
    running_.erase(rank);
    const int code = roll(4) ? 0 : roll(2) ? 1 : kPreempted;
    if (code != 1) may_be_saved_.insert(rank);
    feed(WorkerExited{round_, rank, {.code = code}});
  }

  void feed(const Event& event) {
    for (const Action& action : supervisor_.on(event, now_)) {
      INFO(to_string(event) << " -> " << to_string(action));
      CHECK_FALSE(finished_);
      execute(action);
    }
  }

  void execute(const Action& action) {
    std::visit(overloaded{
                   [&](const StartWorkers& a) { start(a.seat.round); },
                   [&](const SignalWorkers& a) { end_all(a.signal); },
                   [&](const SweepLeftovers& a) {
                     to_start_ = kWorkers;
                     CHECK((running_.empty() || held_by_kernel_));
                     sweeping_ = true;
                     if (roll(4)) due_.push_back(Swept{a.round});  // else something is left for ever
                   },
                   [&](const EndSweep&) { CHECK(std::exchange(sweeping_, false)); },
                   [&](const AnnounceHeld&) { CHECK(held_by_kernel_); },
                   [&](const ReportHeld&) { CHECK(held_by_kernel_); },
                   [&](const ReportFailure& a) { report(a); },
                   [&](const ReportInterrupted& a) {
                     due_.push_back(JobEnded{{Verdict::interrupted, a.signal, "", {}}});
                   },
                   [&](const ReportDone&) { due_.push_back(JobEnded{}); },
                   [&](const Rejoin&) {
                     CHECK(running_.empty());
                     CHECK_FALSE(sweeping_);
                     waiting_ = true;
                   },
                   [&](const Finish& a) {
                     for (const int rank : a.saved) CHECK(may_be_saved_.contains(rank));
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
    may_be_saved_.clear();
    to_start_ = 0;
    if (roll(2)) return;  // one after the other, as from a template
    for (; to_start_ < kWorkers; ++to_start_)
      due_.emplace_front(WorkerStarted{round, to_start_}), running_.insert(to_start_);
  }

  void start_one() {
    running_.insert(to_start_);
    feed(WorkerStarted{round_, to_start_++});
  }

  void end_all(int signal) {
    to_start_ = kWorkers;
    CHECK_FALSE((killed_ && signal == SIGTERM));  // politeness comes first
    killed_ |= signal == SIGKILL;
    if (ignores_sigterm_ && signal != SIGKILL) return;
    held_by_kernel_ = signal == SIGKILL && roll(8) == 0;
    if (held_by_kernel_) return;
    for (const int rank : running_) {
      const bool saves = signal == SIGTERM && roll(3) == 0;
      if (saves) may_be_saved_.insert(rank);
      due_.push_back(WorkerExited{round_, rank, saves ? ExitStatus{.code = kPreempted} : ExitStatus{.signal = signal}});
    }
  }

  void report(const ReportFailure& failure) {
    CHECK_FALSE((code_is_known_ && failure.status.code == kPreempted));
    CHECK(reported_.insert(failure.round).second);  // one failure ends a round, the others are its consequences
    if (roll(3))
      due_.push_back(RoundEnded{round_});
    else
      due_.push_back(JobEnded{{Verdict::worker_failed, 0, "", {}}});
  }

  std::mt19937 random_;
  Supervisor supervisor_{{}};
  TimePoint now_{};
  std::deque<Event> due_;
  std::set<int> running_, dying_, started_, reported_;
  std::set<int> may_be_saved_;  // by their exit codes
  bool code_is_known_ = false;
  int round_ = 0, to_start_ = kWorkers;
  bool ignores_sigterm_ = false, killed_ = false, held_by_kernel_ = false;
  bool sweeping_ = false, waiting_ = true, finished_ = false;
};

}  // namespace

TEST_CASE("no order of events starts a worker twice in a round or leaves one running at the end", "[supervisor]") {
  for (unsigned seed = 0; seed < static_cast<unsigned>(often(10'000)); ++seed) {
    INFO("seed " << seed);
    Simulation simulation(seed);
    for (int step = 0; step < 5000 && simulation.step(); ++step) {
    }
    REQUIRE(simulation.finished());
  }
}
