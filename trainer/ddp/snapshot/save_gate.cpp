#include "trainer/ddp/snapshot/save_gate.h"

#include <algorithm>

#include "rendezvous/base/error.h"
#include "rendezvous/channel/beat_scope.h"

namespace ddprun {

bool SaveGate::reached(std::uint64_t step, Duration limit) { return reached_position(position(step), limit); }

bool SaveGate::reached_between(Duration limit) {
  const Position next = at_ + 1;
  return reached_position(next >> kPointBits == at_ >> kPointBits ? next : at_, limit);
}

bool SaveGate::reached_position(Position position, Duration limit) {
  at_ = position;
  next_.store(position + 1);
  const Position last = last_.load();
  if (last == kClosed) return wait_at(position, limit);
  return position >= last;
}

bool SaveGate::wait_at(Position position, Duration limit) {
  const WaitScope wait("save");
  std::unique_lock lock(mutex_);
  const bool answered = changed_.wait_for(lock, limit, [&] { return last_ != kClosed || !failure_.empty(); });
  if (answered && failure_.empty()) return position >= last_;
  throw Error("cannot save before the job stops",
              failure_.empty() ? "the ranks have not agreed in time at which step" : failure_,
              "What was done since the last snapshot is lost.");
}

SaveGate::Position SaveGate::close() {
  last_.store(kClosed);
  return next_.load();
}

void SaveGate::open_up_to(Position position) {
  const std::lock_guard lock(mutex_);
  last_ = position;
  changed_.notify_all();
}

void SaveGate::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  failure_ = reason;
  changed_.notify_all();
}

void offer_stop(rendezvous::Client& store, const std::string& prefix, int rank, int world_size,
                SaveGate::Position stop) {
  const auto stop_of = [&](int one) { return prefix + "stop/" + std::to_string(one); };
  store.set(stop_of(rank), std::to_string(stop));
  if (store.add(prefix + "stopping", 1) < world_size) return;
  rendezvous::Client::Keys keys;  // the last rank computes the latest
  for (int one = 0; one < world_size; ++one) keys.push_back(stop_of(one));
  SaveGate::Position latest = SaveGate::kFirst;
  for (const std::string& one : store.multi_get(keys)) latest = std::max<SaveGate::Position>(latest, std::stoull(one));
  store.set(prefix + "save_at", std::to_string(latest));
}

std::optional<SaveGate::Position> agreed_stop(rendezvous::Client& store, const std::string& prefix, Duration limit) {
  try {
    return std::stoull(store.get(prefix + "save_at", limit));
  } catch (const rendezvous::TimeoutError&) {
    return {};
  }
}

}  // namespace ddprun
