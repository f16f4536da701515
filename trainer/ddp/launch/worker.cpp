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
#include "trainer/ddp/group/calls_in_flight.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/ddp/snapshot/save_gate.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kAgreementLimit{10};
constexpr std::chrono::seconds kSnapshotLimit{3};  // the same for a snapshot on the way, which is only left out then
constexpr std::chrono::seconds kStoreLimit{3};     // for each call: without the store we are lost as well
// Period for polling the page, as a program may block SIGTERM, and for checking whether the Worker is being destroyed.
constexpr std::chrono::milliseconds kPollPeriod{100};
constexpr std::chrono::milliseconds kStayingPollPeriod{10};  // of one that has to end its calls when a peer is lost
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

// What the agent asks for, and when it did.
struct Request {
  std::uint64_t kind = DDPRUN_REQUEST_NONE;
  std::uint64_t time_ns = 0;
};

Request page_request() {
  ddprun_channel_record record;
  if (!ddprun_channel_page_ || !ddprun_channel_read_(&ddprun_channel_page_->request, &record)) return {};
  return {record.first, record.time_ns};
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

  void wait_for_post() const {
    timespec until = {};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += std::chrono::nanoseconds(stays ? kStayingPollPeriod : kPollPeriod).count();
    until.tv_sec += until.tv_nsec / 1'000'000'000;
    until.tv_nsec %= 1'000'000'000;
    sem_timedwait(&request_semaphore, &until);
  }

  // To save, and not carried out yet.
  bool is_new(const Request& request) const {
    return request.kind == DDPRUN_REQUEST_SAVE ||
           (request.kind == DDPRUN_REQUEST_SNAPSHOT && request.time_ns != served_ns);
  }

  // All ranks take part in all agreements, so they count them alike.
  void agree_when_requested() {
    for (int number = 0; !ending; ++number) {
      Request request = page_request();
      for (; !ending && !is_new(request); request = page_request()) {
        end_calls_if_leaving(request);
        wait_for_post();
      }
      if (ending || !agree(request, "ddprun/save/" + std::to_string(env.round) + "/" + std::to_string(number) + "/"))
        return;
    }
  }

  // A peer is lost, and the training thread may wait for it in a call that only an abort ends.
  void end_calls_if_leaving(const Request& request) {
    if (request.kind != DDPRUN_REQUEST_LEAVE || !stays || std::exchange(calls_ended, true)) return;
    if (const auto abort = abort_calls_in_flight.load()) abort();
  }

  // False: there is nothing to agree on any more.
  bool agree(const Request& request, const std::string& prefix) {
    const bool ends = request.kind == DDPRUN_REQUEST_SAVE;
    bool offered = false;
    const SaveGate::Position stop = gate.close();
    try {
      rendezvous::Client store({.host = env.master_addr, .port = env.master_port, .timeout = kStoreLimit});
      auto agreed = agreed_stop(store, prefix, {});
      const bool missed = agreed.has_value();  // the others had a request that this rank has not seen, and gave it up
      if (!missed) {
        offer_stop(store, prefix, env.rank, env.world_size, {stop, ends});
        offered = true;
        for (const TimePoint end = Clock::now() + (ends ? kAgreementLimit : kSnapshotLimit);
             !agreed && Clock::now() < end && !ending;) {
          end_calls_if_leaving(page_request());
          agreed = agreed_stop(store, prefix, kPollPeriod);
        }
        if (!agreed && !ends && !ending) agreed = give_up_stop(store, prefix);
      }
      if (!agreed) return gate.fail("not all ranks have answered"), false;
      if (!ends && !missed) served_ns = request.time_ns;
      if (agreed->at == 0) return gate.reopen(), true;
      passed = false;
      stop_ends = agreed->ends;
      gate.open_up_to(agreed->at);
      wait_until_all_know(store, prefix);
    } catch (const std::exception& error) {
      if (!ends && !offered) return served_ns = request.time_ns, gate.reopen(), true;
      std::string reason = error.what();
      while (!reason.empty() && reason.back() == '.') reason.pop_back();
      return gate.fail(reason), false;
    }
    while (!stop_ends && !passed && !ending) wait_for_post();
    return !stop_ends;
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
    const Request request = page_request();
    if (request.kind == DDPRUN_REQUEST_LEAVE) return Asked::to_leave;
    if (env.world_size == 1) return asked_alone(request);
    if (is_new(request) && std::exchange(woken_ns, request.time_ns) != request.time_ns) sem_post(&request_semaphore);
    if (!(step ? gate.reached(*step, kAgreementLimit) : gate.reached_between(kAgreementLimit))) return Asked::nothing;
    if (!stop_ends) {
      gate.reopen();
      passed = true;
      sem_post(&request_semaphore);
      return Asked::to_snapshot;
    }
    const WaitScope wait("save");
    if (agreement_thread.joinable()) agreement_thread.join();
    return Asked::to_save;
  }

  Asked asked_alone(const Request& request) {
    if (!is_new(request)) return Asked::nothing;
    if (request.kind == DDPRUN_REQUEST_SAVE) return Asked::to_save;
    served_ns = request.time_ns;
    return Asked::to_snapshot;
  }

  RankEnv env = rank_env();
  SaveGate gate;
  std::uint64_t woken_ns = 0;                // the request for which the training thread has woken the other one
  std::atomic<std::uint64_t> served_ns = 0;  // the last request for a snapshot that was carried out or left out
  std::atomic<bool> stop_ends = true;        // the agreed save is the end
  std::atomic<bool> passed = false;          // the training thread has been there
  std::atomic<bool> stays = false;           // Worker::stay_in_process()
  bool calls_ended = false;                  // by the agreement's thread
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

bool Worker::stay_in_process() {
  stays_ = channel_ && ddprun_channel_may_park();
  if (channel_) channel_->stays = stays_;
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
  channel_->stays = true;
  return true;
}

void Worker::saved(std::uint64_t step, std::uint64_t bytes) { ddprun_channel_snapshot_of(step, bytes); }

void Worker::loss(std::uint64_t step, double loss) { ddprun_channel_loss(step, loss); }

void Worker::total_steps(std::uint64_t steps) { ddprun_channel_total_steps(steps); }

void Worker::throughput(double samples_per_second) { ddprun_channel_throughput(samples_per_second); }

}  // namespace ddprun
