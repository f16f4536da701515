#include "agent/link/own_place.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr rendezvous::ListenPurpose kPurpose{"the coordinator", "--master-port or another port in --rdzv-endpoint",
                                             false};
constexpr std::chrono::milliseconds kPauseFirst{100}, kPauseMost{1'000};
constexpr std::chrono::seconds kLookUpLimit{2};  // then the lookup continues for the next try

}  // namespace

OwnPlace::OwnPlace(asio::io_context& io, Options options, Hooks hooks)
    : options_(std::move(options)),
      hooks_(std::move(hooks)),
      whose_(options_.whose),
      retry_timer_(io),
      pause_(kPauseFirst) {
  whose_.resize(options_.places.size(), rendezvous::Locality::remote);
}

std::optional<rendezvous::Listening> OwnPlace::listen() {
  why_not_.clear();
  for (std::size_t place = 0; place < wanted(); ++place)
    if (whose_[place] == rendezvous::Locality::local)
      if (auto listening = listen_at(place)) return listening;
  return {};
}

std::optional<rendezvous::Listening> OwnPlace::listen_at(std::size_t place) {
  const std::uint16_t port = options_.places[place].port;
  std::error_code failed;
  const rendezvous::Listening listening =
      options_.others_may_host ? rendezvous::try_listener("", port, failed) : open_listener("", port, kPurpose);
  if (!failed) {
    at_ = place;
    why_not_.clear();
    return listening;
  }
  if (held_since_ == TimePoint{}) held_since_ = Clock::now();
  why_not_ = "cannot bind port " + std::to_string(port) + " (" + failed.message() + ")";
  return {};
}

void OwnPlace::keep_trying() {
  trying_ = std::make_shared<int>();
  look_up_unknown();
  schedule_retry();
}

void OwnPlace::stop() {
  trying_.reset();
  retry_timer_.cancel();
}

void OwnPlace::schedule_retry() {
  const auto end = whose_.begin() + static_cast<std::ptrdiff_t>(wanted());
  if (std::all_of(whose_.begin(), end,
                  [](rendezvous::Locality whose) { return whose == rendezvous::Locality::remote; }))
    return;
  retry_timer_.expires_after(pause_);
  pause_ = std::min<Duration>(2 * pause_, kPauseMost);
  retry_timer_.async_wait([this, trying = std::weak_ptr<const int>(trying_)](const std::error_code& error) {
    if (!error && !trying.expired()) try_again();
  });
}

void OwnPlace::try_again() {
  const auto listening = listen();
  look_up_unknown();
  schedule_retry();
  if (listening) return hooks_.on_listening(*listening);
  if (!why_not_.empty()) hooks_.on_held();
}

void OwnPlace::look_up_unknown() {
  for (std::size_t place = 0; place < wanted(); ++place) {
    if (whose_[place] != rendezvous::Locality::unknown || !pending_lookups_.insert(place).second) continue;
    options_.names->resolve(options_.places[place].host, kLookUpLimit,
                            [this, place, trying = std::weak_ptr<const int>(trying_)](const rendezvous::LookUp& found) {
                              if (trying.expired()) return;
                              pending_lookups_.erase(place);
                              whose_[place] = rendezvous::locality_of(found);
                              if (whose_[place] == rendezvous::Locality::local) try_again();
                            });
  }
}

}  // namespace ddprun::agent
