#include "trainer/ddp/snapshot/save_gate.h"

#include <algorithm>

#include "rendezvous/base/error.h"

namespace ddprun {

bool SaveGate::reached(std::uint64_t step, Duration limit) {
  next_.store(step + 1);
  const std::uint64_t last = last_.load();
  if (last == kClosed) return wait_for_step(step, limit);
  return step >= last;
}

bool SaveGate::wait_for_step(std::uint64_t step, Duration limit) {
  std::unique_lock lock(mutex_);
  const bool answered = changed_.wait_for(lock, limit, [&] { return last_ != kClosed || !failure_.empty(); });
  if (answered && failure_.empty()) return step >= last_;
  throw Error("cannot save before the job stops",
              failure_.empty() ? "the ranks have not agreed in time at which step" : failure_,
              "What was done since the last snapshot is lost.");
}

std::uint64_t SaveGate::close() {
  last_.store(kClosed);
  return next_.load();
}

void SaveGate::open_up_to(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  last_ = step;
  changed_.notify_all();
}

void SaveGate::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  failure_ = reason;
  changed_.notify_all();
}

void offer_stop(rendezvous::Client& store, const std::string& prefix, int rank, int world_size, std::uint64_t stop) {
  const auto stop_of = [&](int one) { return prefix + "stop/" + std::to_string(one); };
  store.set(stop_of(rank), std::to_string(stop));
  if (store.add(prefix + "stopping", 1) < world_size) return;
  rendezvous::Client::Keys keys;  // the last rank computes the highest
  for (int one = 0; one < world_size; ++one) keys.push_back(stop_of(one));
  std::uint64_t highest = 1;
  for (const std::string& one : store.multi_get(keys)) highest = std::max<std::uint64_t>(highest, std::stoull(one));
  store.set(prefix + "save_at", std::to_string(highest));
}

std::optional<std::uint64_t> agreed_stop(rendezvous::Client& store, const std::string& prefix, Duration limit) {
  try {
    return std::stoull(store.get(prefix + "save_at", limit));
  } catch (const rendezvous::TimeoutError&) {
    return {};
  }
}

}  // namespace ddprun
