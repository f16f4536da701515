#include "rendezvous/peer/dialer.h"

#include <utility>

namespace ddprun::rendezvous {
namespace {

using asio::ip::tcp;

constexpr std::chrono::seconds kGreetingLimit{5};

}  // namespace

Dialer::Dialer(asio::io_context& io, std::shared_ptr<Resolver> names, const PeerTrust& trust, Hooks hooks)
    : trust_(trust),
      hooks_(std::move(hooks)),
      connector_(io, names ? std::move(names) : std::make_shared<Resolver>(io),
                 {[this](tcp::socket socket) { authenticate(std::move(socket)); },
                  [this](const Failure& failure) { fail(failure); }}),
      timer_(io) {}

template <class Function>
void Dialer::at(TimePoint time, Function function) {
  waiting_ = std::make_shared<int>();
  timer_.expires_at(time);
  timer_.async_wait(
      [waiting = std::weak_ptr<const int>(waiting_), function = std::move(function)](const std::error_code& error) {
        if (!error && !waiting.expired()) function();
      });
}

void Dialer::start(const Attempt& attempt) {
  stop();
  attempt_ = attempt;
  if (attempt.pause == Duration::zero()) return connect();
  at(Clock::now() + attempt.pause, [this] { connect(); });
}

void Dialer::stop() {
  waiting_.reset();
  timer_.cancel();
  connector_.stop();
  connection_.reset();
}

void Dialer::connect() {
  if (attempt_.deadline) at(*attempt_.deadline, [this] { fail({"it does not answer"}); });
  connector_.start(attempt_.address);
}

void Dialer::authenticate(tcp::socket socket) {
  const TimePoint deadline = attempt_.deadline.value_or(Clock::now() + kGreetingLimit);
  if (!attempt_.deadline) at(deadline, [this] { fail({"it does not answer"}); });
  connection_.emplace(std::move(socket), PeerRole::client, trust_);
  connection_->handshake(deadline, [this](const std::string& refusal) {
    if (!refusal.empty()) return fail({refusal});
    const auto connected = hooks_.on_connected;
    PeerConnection connection = std::move(*connection_);
    connection_.reset();
    connected(std::move(connection));
  });
}

void Dialer::fail(const Failure& failure) {
  const auto failed = hooks_.on_failed;
  stop();
  failed(failure);
}

}  // namespace ddprun::rendezvous
