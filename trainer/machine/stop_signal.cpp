#include "trainer/machine/stop_signal.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <thread>

#include <unistd.h>

#include "rendezvous/base/signals_blocked.h"
#include "trainer/ddp/snapshot/save_gate.h"

namespace ddprun::train {
namespace {

using namespace std::chrono_literals;

constexpr auto kPollPeriod = 100ms;
constexpr auto kAgreementLimit = 10s;

std::atomic<bool> sigterm_received = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler writes it

// Ends the process as without a handler.
void end_now() {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGTERM, &standard, nullptr);
  kill(getpid(), SIGTERM);
}

std::string text_from(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

struct StopSignal::Impl {
  explicit Impl(const ProcessGroup& the_group) : group(the_group) {
    sigterm_received = false;
    struct sigaction ours = {};
    ours.sa_handler = [](int) {
      if (sigterm_received.exchange(true)) end_now();  // a second signal ends the process at once
    };
    ours.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &ours, &before);
    if (group.world_size() == 1) return;
    const SignalsBlocked blocked;
    agreement_thread = std::thread([this] { agree_when_requested(); });
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    end.notify_all();
    if (agreement_thread.joinable()) agreement_thread.join();
    sigaction(SIGTERM, &before, nullptr);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Returns true if the destructor waits for this thread.
  bool pause() {
    std::unique_lock lock(mutex);
    return end.wait_for(lock, kPollPeriod, [&] { return ending; });
  }

  bool save_here(bool here) {
    if (here) agreement_thread.join();
    return here;
  }

  void agree_when_requested() try {
    const auto store = group.store();
    while (!sigterm_received && !store->check({"stop/asked"}))
      if (pause()) return;
    store->set("stop/asked", "");
    const SaveGate::Position stop = gate.close();
    offer(*store, stop);
    const auto limit = std::chrono::steady_clock::now() + kAgreementLimit;
    while (!store->check({"stop/at"})) {
      // The training thread may be waiting for the rank that does not answer.
      if (std::chrono::steady_clock::now() > limit) return end_now();
      if (pause()) return;
    }
    gate.open_up_to(std::stoull(text_from(store->get("stop/at"))));
  } catch (const std::exception&) {
    gate.fail("the store is gone");  // its rank has ended
  }

  // The last rank to arrive computes the latest.
  void offer(c10d::Store& store, SaveGate::Position stop) {
    store.set("stop/of/" + std::to_string(group.rank()), std::to_string(stop));
    if (store.add("stop/offers", 1) < group.world_size()) return;
    SaveGate::Position latest = SaveGate::kFirst;
    for (int rank = 0; rank < group.world_size(); ++rank)
      latest =
          std::max<SaveGate::Position>(latest, std::stoull(text_from(store.get("stop/of/" + std::to_string(rank)))));
    store.set("stop/at", std::to_string(latest));
  }

  const ProcessGroup group;
  SaveGate gate;
  struct sigaction before = {};
  std::mutex mutex;
  std::condition_variable end;
  bool ending = false;
  std::thread agreement_thread;
};

StopSignal::StopSignal(const ProcessGroup& group) : impl_(std::make_unique<Impl>(group)) {}
StopSignal::~StopSignal() = default;

bool StopSignal::reached(std::uint64_t step) {
  if (!impl_->agreement_thread.joinable()) return sigterm_received;
  return impl_->save_here(impl_->gate.reached(step, kAgreementLimit));
}

bool StopSignal::reached_between_steps() {
  if (!impl_->agreement_thread.joinable()) return sigterm_received;
  return impl_->save_here(impl_->gate.reached_between(kAgreementLimit));
}

}  // namespace ddprun::train
