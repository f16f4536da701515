#include "rendezvous/coordinator_client.h"

#include <algorithm>
#include <utility>

#include <asio/connect.hpp>
#include <asio/post.hpp>

#include "rendezvous/overloaded.h"

namespace ddprun {
namespace {

using asio::ip::tcp;

constexpr std::chrono::milliseconds kPauseFirst{50}, kPauseMost{1'000};
constexpr std::chrono::seconds kTryLimit{5};  // a try that hangs, on a firewall perhaps, makes room for the next place
constexpr int kBeatsPerLease = 4;

std::string place_in_words(const CoordinatorPlace& place) {
  const bool brackets = place.host.find(':') != std::string::npos;
  return (brackets ? "[" + place.host + "]" : place.host) + ":" + std::to_string(place.port);
}

}  // namespace

// A handler that is queued already runs after our end, too.
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
      resolver_(io),
      socket_(io),
      again_(io),
      beat_(io),
      lease_over_(io),
      try_over_(io),
      pause_(kPauseFirst) {
  asio::post(io_, guarded([this] { look_up(); }));
}

CoordinatorClient::~CoordinatorClient() = default;

bool CoordinatorClient::send(const FromAgent& message) {
  if (!welcomed_) return false;
  link_->send(encode(message));
  return true;
}

std::string CoordinatorClient::local_address() const { return link_ ? link_->local_address() : ""; }

void CoordinatorClient::look_up() {
  const CoordinatorPlace& place = options_.places[tries_ % options_.places.size()];
  try_over_.expires_after(kTryLimit);
  try_over_.async_wait(guarded([this](const std::error_code& error) {
    if (!error && !welcomed_) try_again("it does not answer");
  }));
  resolver_.async_resolve(place.host, std::to_string(place.port),
                          guarded([this, attempt = tries_](const std::error_code& error, const Results& addresses) {
                            if (attempt != tries_) return;
                            error ? try_again("no such host: " + error.message()) : connect(addresses);
                          }));
}

void CoordinatorClient::connect(const Results& addresses) {
  socket_ = tcp::socket(io_);
  asio::async_connect(socket_, addresses,
                      guarded([this, attempt = tries_](const std::error_code& error, const tcp::endpoint&) {
                        if (attempt != tries_) return;
                        error ? try_again(error.message()) : prove(std::move(socket_));
                      }));
}

void CoordinatorClient::prove(tcp::socket socket) {
  proving_ = std::make_unique<PeerConnection>(std::move(socket), PeerRole::client, options_.trust);
  proving_->handshake(Clock::now() + kTryLimit, [this](const std::string& refusal) {
    if (!refusal.empty()) return try_again(refusal);
    greet();
  });
}

void CoordinatorClient::greet() {
  link_ = std::make_unique<ControlLink>(std::move(*proving_),
                                        ControlLink::Hooks{[this](const std::string& message) { hear(message); },
                                                           [this](const std::string& why) { lose(why); }});
  proving_.reset();
  const TimePoint now = Clock::now();
  link_->send(encode(FromAgent(options_.hello)));
  unanswered_ = {{0, now}};  // the welcome answers the hello
}

void CoordinatorClient::hear(const std::string& bytes) {
  try {
    hear(decode_to_agent(bytes));
  } catch (const BadMessage& bad) {
    lose(std::string("the coordinator sent what is no message: ") + bad.what());
  }
}

void CoordinatorClient::hear(const ToAgent& message) {
  std::uint64_t answered = 0;
  if (const auto* answer = std::get_if<HeartbeatAnswer>(&message)) answered = answer->number;
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    welcomed_ = true;
    lease_ = welcome->lease;
    pause_ = kPauseFirst;
    try_over_.cancel();
  }
  const auto heard =
      std::find_if(unanswered_.begin(), unanswered_.end(), [&](const auto& beat) { return beat.first == answered; });
  if (heard != unanswered_.end() && welcomed_) {
    contact_ = heard->second;
    unanswered_.erase(unanswered_.begin(), heard + 1);
    watch_lease();
  }
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    hooks_.on_connected(*welcome);
    return beat();
  }
  hooks_.on_message(message);
}

void CoordinatorClient::lose(const std::string& why) {
  if (link_) {
    link_->close();
    asio::post(io_, [link = std::move(link_)] {});  // we may be in one of its handlers
  }
  welcomed_ = false;
  unanswered_.clear();
  beat_.cancel();
  try_again(why);
}

void CoordinatorClient::try_again(const std::string& why) {
  if (link_) return lose(why);
  if (proving_) {
    proving_->close();
    asio::post(io_, [proving = std::move(proving_)] {});
  }
  const std::string place = place_in_words(options_.places[tries_ % options_.places.size()]);
  ++tries_;
  std::error_code ignored;
  socket_.close(ignored);
  try_over_.cancel();
  again_.expires_after(pause_);
  pause_ = std::min<Duration>(2 * pause_, kPauseMost);
  again_.async_wait(guarded([this](const std::error_code& error) {
    if (!error) look_up();
  }));
  hooks_.on_trouble(place + ": " + why);
}

void CoordinatorClient::beat() {
  beat_.expires_after(lease_ / kBeatsPerLease);
  beat_.async_wait(guarded([this](const std::error_code& error) {
    if (error || !welcomed_) return;
    unanswered_.emplace_back(++beats_, Clock::now());
    link_->send(encode(FromAgent(Heartbeat{beats_})));
    beat();
  }));
}

void CoordinatorClient::watch_lease() {
  lease_over_.expires_at(*contact_ + lease_);
  lease_over_.async_wait(guarded([this](const std::error_code& error) {
    if (error) return;
    contact_.reset();
    hooks_.on_isolated();
    if (link_) lose("nothing was heard for the lease");
  }));
}

}  // namespace ddprun
