#include "rendezvous/coordination/server/coordinator_client.h"

#include <algorithm>
#include <utility>

#include <asio/post.hpp>

#include "rendezvous/base/overloaded.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::chrono::milliseconds kPauseFirst{50}, kPauseMost{1'000};
constexpr int kHeartbeatsPerLease = 4;
constexpr int kReferralsAtOnce = 4;

std::string place_in_words(const ControlAddress& place) {
  const bool brackets = place.host.find(':') != std::string::npos;
  return (brackets ? "[" + place.host + "]" : place.host) + ":" + std::to_string(place.port);
}

}  // namespace

// A handler that is already queued runs even after our destruction.
template <class Function>
auto CoordinatorClient::guarded(Function function) {
  return [alive = std::weak_ptr<const int>(alive_), function = std::move(function)](auto&&... arguments) mutable {
    if (!alive.expired()) function(std::forward<decltype(arguments)>(arguments)...);
  };
}

CoordinatorClient::CoordinatorClient(asio::io_context& io, Options options, Hooks hooks)
    : io_(io),
      options_(std::move(options)),
      hooks_(std::move(hooks)),
      dialer_(io, options_.names, options_.trust,
              {[this](PeerConnection connection) { send_hello(std::move(connection)); },
               [this](const Dialer::Failure& failure) { try_again(failure.why, failure.refused); }}),
      heartbeat_timer_(io),
      lease_timer_(io),
      pause_(kPauseFirst) {
  dialer_.start({place()});
}

CoordinatorClient::~CoordinatorClient() = default;

bool CoordinatorClient::send(const FromAgent& message) {
  if (!welcomed_) return false;
  if (!std::exchange(spoken_, true)) {
    contact_ = std::max(*contact_, unspoken_contact_);
    watch_lease();
  }
  link_->send(encode(message));
  return true;
}

std::string CoordinatorClient::local_address() const { return link_ ? link_->local_address() : ""; }

std::size_t CoordinatorClient::count_places() const {
  return (coordinator_ ? 1 : 0) + options_.places.size() + fallback_places_.size();
}

// The last known coordinator comes first in every cycle.
ControlAddress CoordinatorClient::place() const {
  std::size_t turn = tries_ % count_places();
  if (coordinator_ && turn-- == 0) return *coordinator_;
  if (turn < options_.places.size()) return options_.places[turn];
  return fallback_places_[turn - options_.places.size()];
}

void CoordinatorClient::connect_to(const ControlAddress& coordinator) {
  pause_ = kPauseFirst;
  referrals_ = 0;
  redirect_to(coordinator);
}

// Without redirect_to(), the next attempt is already planned, at the next place.
void CoordinatorClient::on_referral(const ControlAddress& coordinator) {
  if (referrals_ < kReferralsAtOnce) return ++referrals_, redirect_to(coordinator);
  if (tries_ % count_places() == 0) referrals_ = 0;
}

void CoordinatorClient::redirect_to(const ControlAddress& coordinator) {
  disconnect();
  coordinator_ = coordinator;
  coordinator_id_ = 0;
  tries_ += count_places() - tries_ % count_places();
  dialer_.start({place(), std::max(cut_until_ - Clock::now(), Duration::zero())});
}

void CoordinatorClient::cut(Duration time) {
  cut_until_ = Clock::now() + time;
  if (link_) try_again("the connection is cut");
}

void CoordinatorClient::send_hello(PeerConnection connection) {
  if (stuck()) return try_again("this agent is stuck");
  link_ = std::make_unique<ControlLink>(std::move(connection),
                                        ControlLink::Hooks{[this](const std::string& message) { on_message(message); },
                                                           [this](const std::string& why) { on_closed(why); }});
  const TimePoint now = Clock::now();
  link_->send(encode(FromAgent(options_.hello)));
  unanswered_ = {{0, now}};  // the welcome answers the hello
}

void CoordinatorClient::on_message(const std::string& bytes) {
  try {
    on_message(decode_to_agent(bytes));
  } catch (const BadMessage& bad) {
    try_again(std::string("the coordinator sent an invalid message: ") + bad.what());
  }
}

void CoordinatorClient::on_message(const ToAgent& message) {
  // Of a process that was stopped, messages may come before timers: what was ordered then is out of date.
  if (contact_ && welcomed_ && Clock::now() >= *contact_ + lease_) return end_lease();
  std::uint64_t answered = 0;
  Duration quorum_age{};
  if (const auto* elsewhere = std::get_if<Elsewhere>(&message)) {
    const Elsewhere referral = *elsewhere;
    const bool replaced = coordinator_id_ != 0 && referral.agent != coordinator_id_;
    try_again(
        referral.agent == options_.trust.own.instance ? "it is this agent itself" : "the coordinator is not there",
        replaced, referral.record);
    return hooks_.on_elsewhere(referral);
  }
  heard_at_ = Clock::now();
  if (const auto* answer = std::get_if<HeartbeatAnswer>(&message)) {
    answered = answer->number;
    quorum_age = answer->quorum_age;
    last_answer_ = answered;
  }
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    quorum_age = welcome->quorum_age;
    last_answer_ = 0;
    coordinator_ = {link_->remote_address(), place().port};
    coordinator_id_ = welcome->coordinator;
    welcomed_ = true;
    spoken_ = !contact_;
    unspoken_contact_ = TimePoint::min();
    lease_ = welcome->lease;
    loop_limit_ = welcome->loop_limit;
    pause_ = kPauseFirst;
    referrals_ = 0;
    dialer_.stop();
  }
  const auto acknowledged = std::find_if(unanswered_.begin(), unanswered_.end(),
                                         [&](const auto& heartbeat) { return heartbeat.first == answered; });
  if (acknowledged != unanswered_.end() && welcomed_) {
    const std::optional<TimePoint> contact = acknowledged->second - quorum_age;
    unanswered_.erase(unanswered_.begin(), acknowledged + 1);
    if (!spoken_) {
      unspoken_contact_ = std::max(unspoken_contact_, *contact);
    } else {
      contact_ = std::max(contact_, contact);
      watch_lease();
    }
  }
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    hooks_.on_connected(*welcome);
    return schedule_heartbeat();
  }
  hooks_.on_message(message);
}

// Sends nothing, and plans no other attempt.
void CoordinatorClient::disconnect() {
  if (link_) {
    link_->close();
    asio::post(io_, [link = std::move(link_)] {});  // we may be in one of its handlers
  }
  ++tries_;
  dialer_.stop();
  welcomed_ = false;
  unanswered_.clear();
  heartbeat_timer_.cancel();
}

// The next attempt tells whether the coordinator's process is gone.
void CoordinatorClient::on_closed(const std::string& why) {
  goes_back_ = welcomed_;
  try_again(why);
}

void CoordinatorClient::try_again(const std::string& why, bool refused, const RecordId& known) {
  const ControlAddress tried = place();
  disconnect();
  if (std::exchange(goes_back_, false)) tries_ += count_places() - tries_ % count_places();
  dialer_.start({place(), std::max<Duration>(pause_, cut_until_ - Clock::now())});
  pause_ = std::min<Duration>(2 * pause_, kPauseMost);
  hooks_.on_failure({place_in_words(tried) + ": " + why, refused && tried == coordinator_, known});
}

void CoordinatorClient::schedule_heartbeat() {
  heartbeat_timer_.expires_after(lease_ / kHeartbeatsPerLease);
  heartbeat_timer_.async_wait(guarded([this](const std::error_code& error) {
    if (error || !welcomed_) return;
    unanswered_.emplace_back(++last_heartbeat_, Clock::now());
    const Duration stood = loop_stood();
    link_->send(encode(FromAgent(Heartbeat{last_heartbeat_, last_answer_, stood})));
    if (stood >= loop_limit_) return isolate_stuck_agent();
    schedule_heartbeat();
  }));
}

// With the heartbeat that it gets now, the coordinator calls this node lost, and closes the connection if it can.
void CoordinatorClient::isolate_stuck_agent() {
  contact_.reset();
  spoken_ = true;
  lease_timer_.cancel();
  hooks_.on_isolated();
  heartbeat_timer_.expires_after(lease_ / kHeartbeatsPerLease);
  heartbeat_timer_.async_wait(guarded([this](const std::error_code& error) {
    if (!error) try_again("this agent was stuck");
  }));
}

void CoordinatorClient::watch_lease() {
  lease_timer_.expires_at(*contact_ + lease_);
  lease_timer_.async_wait(guarded([this](const std::error_code& error) {
    if (!error) end_lease();
  }));
}

void CoordinatorClient::end_lease() {
  contact_.reset();
  spoken_ = true;
  lease_timer_.cancel();
  hooks_.on_isolated();
  if (link_) try_again("no heartbeat was answered within the lease");
}

}  // namespace ddprun::rendezvous
