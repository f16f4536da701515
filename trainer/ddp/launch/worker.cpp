#include "rendezvous/channel/worker_channel.h"  // first: it needs _GNU_SOURCE
//
#include <semaphore.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "ddprun/worker.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/signals_blocked.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/ddp/snapshot/save_gate.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kAgreementLimit{10};
constexpr std::chrono::seconds kStoreLimit{3};  // for each call: without the store we are lost as well
// Period for polling the page, as a program may block SIGTERM, and for checking whether the Worker is being destroyed.
constexpr std::chrono::milliseconds kLookEvery{100};

std::atomic<bool> taken = false;
sem_t news;  // posted when the page may have a request; a signal handler may post it

static_assert(static_cast<int>(Phase::loading) == DDPRUN_PHASE_LOADING);
static_assert(static_cast<int>(Phase::finishing) == DDPRUN_PHASE_FINISHING);

// If asked to save, we continue to the agreed step; else the signal has its default effect.
void on_sigterm(int signal) {
  const int error = errno;
  if (ddprun_channel_request().what == DDPRUN_ASKED_TO_SAVE) {
    sem_post(&news);
  } else {
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
    raise(signal);  // takes effect when we return
  }
  errno = error;
}

// Handles SIGTERM if the program does not.
class SigtermHandler {
 public:
  SigtermHandler() {
    if (sigaction(SIGTERM, nullptr, &before_) != 0 || is_own(before_)) return;
    struct sigaction ours = {};
    ours.sa_handler = on_sigterm;
    ours.sa_flags = SA_RESTART;
    set_ = sigaction(SIGTERM, &ours, nullptr) == 0;
  }
  ~SigtermHandler() {
    struct sigaction now = {};
    if (set_ && sigaction(SIGTERM, nullptr, &now) == 0 && now.sa_handler == on_sigterm)
      sigaction(SIGTERM, &before_, nullptr);
  }
  SigtermHandler(const SigtermHandler&) = delete;
  SigtermHandler& operator=(const SigtermHandler&) = delete;

 private:
  static bool is_own(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) || action.sa_handler != SIG_DFL;
  }
  struct sigaction before_ = {};
  bool set_ = false;
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
    agreeing = std::thread([this] { agree_when_asked(); });
  }
  ~Channel() {
    ending = true;
    sem_post(&news);
    if (agreeing.joinable()) agreeing.join();
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void agree_when_asked() {
    while (ddprun_channel_request().what != DDPRUN_ASKED_TO_SAVE) {
      timespec until = {};
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_nsec += std::chrono::nanoseconds(kLookEvery).count();
      until.tv_sec += until.tv_nsec / 1'000'000'000;
      until.tv_nsec %= 1'000'000'000;
      sem_timedwait(&news, &until);
      if (ending) return;
    }
    const std::uint64_t stop = gate.close();
    const std::string prefix = "ddprun/save/" + std::to_string(env.round) + "/";
    try {
      rendezvous::Client store({.host = env.master_addr, .port = env.master_port, .timeout = kStoreLimit});
      offer_stop(store, prefix, env.rank, env.world_size, stop);
      std::optional<std::uint64_t> agreed;
      for (const TimePoint end = Clock::now() + kAgreementLimit; !agreed && Clock::now() < end && !ending;)
        agreed = agreed_stop(store, prefix, kLookEvery);
      if (!agreed) return gate.fail("not all of them have answered");
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

  // Returns true if the ranks save here and all of them know it.
  bool reached(std::uint64_t step) {
    if (!gate.reached(step, kAgreementLimit)) return false;
    if (agreeing.joinable()) agreeing.join();
    return true;
  }

  RankEnv env = rank_env();
  SaveGate gate;
  bool woken = false;  // the training thread was woken
  std::atomic<bool> ending = false;
  std::thread agreeing;
  SigtermHandler handler;  // destroyed first
};

Worker::Worker() {
  if (taken.exchange(true)) throw UsageError("cannot make a Worker", "there is one already", "One is enough.");
  if (!ddprun_channel_attach()) return;
  sem_init(&news, 0, 0);
  channel_ = std::make_unique<Channel>();
}

Worker::~Worker() {
  channel_.reset();
  taken = false;
}

bool Worker::has_launcher() const { return channel_ != nullptr; }

void Worker::phase(Phase phase) { ddprun_channel_phase(static_cast<ddprun_phase>(phase)); }

Asked Worker::step_done(std::uint64_t step) {
  if (!channel_) return Asked::nothing;
  ddprun_channel_step(step);
  const ddprun_asked asked = ddprun_channel_request().what;
  if (asked == DDPRUN_ASKED_TO_LEAVE) return Asked::to_leave;
  if (channel_->env.world_size == 1) return asked == DDPRUN_ASKED_TO_SAVE ? Asked::to_save : Asked::nothing;
  if (asked == DDPRUN_ASKED_TO_SAVE && !std::exchange(channel_->woken, true)) sem_post(&news);
  return channel_->reached(step) ? Asked::to_save : Asked::nothing;
}

void Worker::saved(std::uint64_t step) { ddprun_channel_snapshot(step); }

void Worker::throughput(double samples_per_second) { ddprun_channel_throughput(samples_per_second); }

}  // namespace ddprun
