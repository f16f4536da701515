#include "rendezvous/channel/worker_channel.h"  // first: it needs _GNU_SOURCE
//
#include <semaphore.h>

#include <array>
#include <atomic>
#include <csignal>
#include <ctime>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ddprun/worker.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/signals_blocked.h"
#include "rendezvous/channel/beat_scope.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/ddp/snapshot/save_gate.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kAgreementLimit{10};
constexpr std::chrono::seconds kStoreLimit{3};  // for each call: without the store we are lost as well
// Period for polling the page, as a program may block SIGTERM, and for checking whether the Worker is being destroyed.
constexpr std::chrono::milliseconds kPollPeriod{100};
// From the loss of a peer until ddprun asks this rank to leave, and how often we look.
constexpr std::chrono::seconds kLeaveLimit{10};
constexpr std::chrono::microseconds kLeavePause{200};

std::atomic<bool> worker_exists = false;
sem_t request_semaphore;  // posted when the page may have a request; a signal handler may post it

static_assert(static_cast<int>(Phase::loading) == DDPRUN_PHASE_LOADING);
static_assert(static_cast<int>(Phase::finishing) == DDPRUN_PHASE_FINISHING);

// Whoever sent it: before a request it is a notice to ddprun, after one to save we continue to the agreed step.
void on_preempt_signal(int signal) {
  const int error = errno;
  if (ddprun_channel_request().kind == DDPRUN_REQUEST_SAVE)
    sem_post(&request_semaphore);
  else
    ddprun_channel_on_signal(signal);
  errno = error;
}

// Handles the signals that announce a preemption, where the program does not.
class PreemptSignalHandlers {
 public:
  PreemptSignalHandlers() {
    std::array<int, 8> signals{};
    const int count = ddprun_channel_preempt_signals(signals.data(), static_cast<int>(signals.size()));
    for (int i = 0; i < count; ++i) {
      const int signal = signals[static_cast<std::size_t>(i)];
      struct sigaction now = {};
      if (sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL) continue;
      struct sigaction ours = {};
      ours.sa_handler = on_preempt_signal;
      ours.sa_flags = SA_RESTART;
      if (sigaction(signal, &ours, nullptr) == 0) set_.push_back(signal);
    }
  }
  ~PreemptSignalHandlers() {
    for (const int signal : set_) {
      struct sigaction now = {};
      if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == on_preempt_signal) std::signal(signal, SIG_DFL);
    }
  }
  PreemptSignalHandlers(const PreemptSignalHandlers&) = delete;
  PreemptSignalHandlers& operator=(const PreemptSignalHandlers&) = delete;

 private:
  std::vector<int> set_;
};

RankEnv rank_env() {
  const auto [env, problems] = read_rank_env(process_environment());
  return problems.empty() ? env : RankEnv{};  // no error here: init_process_group() reports the problems
}

}  // namespace

struct Worker::Channel {
  Channel() {
    if (env.world_size == 1) return;  // no other rank to agree with
    const SignalsBlocked blocked;
    agreement_thread = std::thread([this] { agree_when_requested(); });
  }
  ~Channel() {
    ending = true;
    sem_post(&request_semaphore);
    if (agreement_thread.joinable()) agreement_thread.join();
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void agree_when_requested() {
    while (ddprun_channel_request().kind != DDPRUN_REQUEST_SAVE) {
      timespec until = {};
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_nsec += std::chrono::nanoseconds(kPollPeriod).count();
      until.tv_sec += until.tv_nsec / 1'000'000'000;
      until.tv_nsec %= 1'000'000'000;
      sem_timedwait(&request_semaphore, &until);
      if (ending) return;
    }
    const SaveGate::Position stop = gate.close();
    const std::string prefix = "ddprun/save/" + std::to_string(env.round) + "/";
    try {
      rendezvous::Client store({.host = env.master_addr, .port = env.master_port, .timeout = kStoreLimit});
      offer_stop(store, prefix, env.rank, env.world_size, stop);
      std::optional<SaveGate::Position> agreed;
      for (const TimePoint end = Clock::now() + kAgreementLimit; !agreed && Clock::now() < end && !ending;)
        agreed = agreed_stop(store, prefix, kPollPeriod);
      if (!agreed) return gate.fail("not all ranks have answered");
      gate.open_up_to(*agreed);
      wait_until_all_know(store, prefix);
    } catch (const std::exception& error) {
      std::string reason = error.what();
      while (!reason.empty() && reason.back() == '.') reason.pop_back();
      gate.fail(reason);
    }
  }

  // A rank that leaves early may end its node's store.
  void wait_until_all_know(rendezvous::Client& store, const std::string& prefix) const {
    try {
      if (store.add(prefix + "knowing", 1) == env.world_size) store.set(prefix + "all_know", "");
      store.wait({prefix + "all_know"});
    } catch (const Error&) {  // a peer has died, or left already and so knew
    }
  }

  // `step`: done just now; empty: at a further point after the last one. If the ranks save here, all of them know it.
  Asked asked(std::optional<std::uint64_t> step) {
    const ddprun_request_kind request = ddprun_channel_request().kind;
    if (request == DDPRUN_REQUEST_LEAVE) return Asked::to_leave;
    if (env.world_size == 1) return request == DDPRUN_REQUEST_SAVE ? Asked::to_save : Asked::nothing;
    if (request == DDPRUN_REQUEST_SAVE && !std::exchange(woken, true)) sem_post(&request_semaphore);
    if (!(step ? gate.reached(*step, kAgreementLimit) : gate.reached_between(kAgreementLimit))) return Asked::nothing;
    const WaitScope wait("save");
    if (agreement_thread.joinable()) agreement_thread.join();
    return Asked::to_save;
  }

  RankEnv env = rank_env();
  SaveGate gate;
  bool woken = false;  // the training thread was woken
  std::atomic<bool> ending = false;
  std::thread agreement_thread;
  PreemptSignalHandlers handlers;  // destroyed first
};

Worker::Worker() {
  if (worker_exists.exchange(true))
    throw UsageError("cannot make a Worker", "there is one already", "A process has only one.");
  if (!ddprun_channel_attach()) return;
  set_training_thread();
  sem_init(&request_semaphore, 0, 0);
  channel_ = std::make_unique<Channel>();
}

Worker::~Worker() {
  channel_.reset();
  worker_exists = false;
}

bool Worker::has_launcher() const { return channel_ != nullptr; }

void Worker::phase(Phase phase) {
  set_training_thread();
  ddprun_channel_phase(static_cast<ddprun_phase>(phase));
}

Asked Worker::step_done(std::uint64_t step) {
  if (!channel_) return Asked::nothing;
  set_training_thread();
  ddprun_channel_step(step);
  return channel_->asked(step);
}

Asked Worker::asked_between_steps() { return channel_ ? channel_->asked({}) : Asked::nothing; }

// Gloo writes to sockets that its peers have closed, and a process that stays would end by that.
bool Worker::stay_in_process() {
  stays_ = channel_ && ddprun_channel_may_park();
  struct sigaction now = {};
  if (stays_ && sigaction(SIGPIPE, nullptr, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
  return stays_;
}

bool Worker::rejoin() {
  if (!stays_) return false;
  channel_.reset();
  // A peer's sockets close before its launcher detects its death.
  for (const TimePoint end = Clock::now() + kLeaveLimit;; std::this_thread::sleep_for(kLeavePause)) {
    const auto request = ddprun_channel_request().kind;
    if (request == DDPRUN_REQUEST_LEAVE) break;
    if (request == DDPRUN_REQUEST_SAVE || Clock::now() > end) return false;  // the job ends, or nobody ends the round
  }
  if (!ddprun_channel_park()) return false;
  channel_ = std::make_unique<Channel>();
  return true;
}

void Worker::saved(std::uint64_t step) { ddprun_channel_snapshot(step); }

void Worker::throughput(double samples_per_second) { ddprun_channel_throughput(samples_per_second); }

}  // namespace ddprun
