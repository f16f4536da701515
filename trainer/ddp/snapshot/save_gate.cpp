#include "trainer/ddp/snapshot/save_gate.h"

#include <algorithm>

#include "rendezvous/base/error.h"
#include "rendezvous/channel/beat_scope.h"

namespace ddprun {
namespace {

// "<position> <1: ends, 0: goes on>"
std::string text_of(const SaveStop& stop) { return std::to_string(stop.at) + (stop.ends ? " 1" : " 0"); }
SaveStop stop_in(const std::string& text) { return {std::stoull(text), text.ends_with(" 1")}; }

}  // namespace

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

void SaveGate::reopen() {
  const std::lock_guard lock(mutex_);
  last_ = kOpen;
  changed_.notify_all();
}

void offer_stop(rendezvous::Client& store, const std::string& prefix, int rank, int world_size, SaveStop stop) {
  const auto stop_of = [&](int one) { return prefix + "stop/" + std::to_string(one); };
  store.set(stop_of(rank), text_of(stop));
  if (store.add(prefix + "stopping", 1) < world_size) return;
  rendezvous::Client::Keys keys;  // the last rank computes the latest
  for (int one = 0; one < world_size; ++one) keys.push_back(stop_of(one));
  SaveStop agreed{.at = SaveGate::kFirst};
  for (const std::string& text : store.multi_get(keys)) {
    const SaveStop one = stop_in(text);
    agreed = {std::max(agreed.at, one.at), agreed.ends && one.ends};
  }
  store.compare_set(prefix + "save_at", "", text_of(agreed));  // one may have given up
}

std::optional<SaveStop> agreed_stop(rendezvous::Client& store, const std::string& prefix, Duration limit) {
  try {
    return stop_in(store.get(prefix + "save_at", limit));
  } catch (const rendezvous::TimeoutError&) {
    return {};
  }
}

SaveStop give_up_stop(rendezvous::Client& store, const std::string& prefix) {
  return stop_in(store.compare_set(prefix + "save_at", "", text_of({})));
}

}  // namespace ddprun
