#include "trainer/stop_signal.h"

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

constexpr auto kLookEvery = 100ms;
constexpr auto kAgreementLimit = 10s;

std::atomic<bool> told = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler writes it

// Ends the process as without a handler.
void end_now() {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGTERM, &standard, nullptr);
  kill(getpid(), SIGTERM);
}

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

struct StopSignal::Impl {
  explicit Impl(const ProcessGroup& the_group) : group(the_group) {
    told = false;
    struct sigaction ours = {};
    ours.sa_handler = [](int) {
      if (told.exchange(true)) end_now();  // a second signal ends the process at once
    };
    ours.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &ours, &before);
    if (group.world_size() == 1) return;
    const SignalsBlocked blocked;
    agreeing = std::thread([this] { agree_when_asked(); });
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    end.notify_all();
    if (agreeing.joinable()) agreeing.join();
    sigaction(SIGTERM, &before, nullptr);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Returns true if the destructor waits for this thread.
  bool pause() {
    std::unique_lock lock(mutex);
    return end.wait_for(lock, kLookEvery, [&] { return ending; });
  }

  void agree_when_asked() try {
    const auto store = group.store();
    while (!told && !store->check({"stop/asked"}))
      if (pause()) return;
    store->set("stop/asked", "");
    const std::uint64_t stop = gate.close();
    offer(*store, stop);
    const auto limit = std::chrono::steady_clock::now() + kAgreementLimit;
    while (!store->check({"stop/at"})) {
      // The training thread may be waiting for the rank that does not answer.
      if (std::chrono::steady_clock::now() > limit) return end_now();
      if (pause()) return;
    }
    gate.open_up_to(std::stoull(text_of(store->get("stop/at"))));
  } catch (const std::exception&) {
    gate.fail("the store is gone");  // its rank has ended
  }

  // The last rank to arrive computes the highest.
  void offer(c10d::Store& store, std::uint64_t stop) {
    store.set("stop/of/" + std::to_string(group.rank()), std::to_string(stop));
    if (store.add("stop/offers", 1) < group.world_size()) return;
    std::uint64_t highest = 1;
    for (int rank = 0; rank < group.world_size(); ++rank)
      highest = std::max<std::uint64_t>(highest, std::stoull(text_of(store.get("stop/of/" + std::to_string(rank)))));
    store.set("stop/at", std::to_string(highest));
  }

  const ProcessGroup group;
  SaveGate gate;
  struct sigaction before = {};
  std::mutex mutex;
  std::condition_variable end;
  bool ending = false;
  std::thread agreeing;
};

StopSignal::StopSignal(const ProcessGroup& group) : impl_(std::make_unique<Impl>(group)) {}
StopSignal::~StopSignal() = default;

bool StopSignal::reached(std::uint64_t step) {
  if (!impl_->agreeing.joinable()) return told;
  if (!impl_->gate.reached(step, kAgreementLimit)) return false;
  impl_->agreeing.join();
  return true;
}

}  // namespace ddprun::train
