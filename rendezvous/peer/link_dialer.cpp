#include "rendezvous/peer/link_dialer.h"

#include <algorithm>
#include <utility>

#include "rendezvous/peer/frame.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::chrono::milliseconds kDialPauseFirst{20}, kDialPauseMax{500};

// A connection, and the bytes being sent over it.
struct Sending {
  PeerConnection connection;
  std::string bytes;
};

}  // namespace

void give_away(PeerConnection connection, const std::string& welcome, std::function<void(ReleasedPeer)> take) {
  const auto sending = std::make_shared<Sending>(Sending{std::move(connection), framed(welcome)});
  sending->connection.write(asio::buffer(sending->bytes),
                            [sending, take = std::move(take)](const std::error_code& error) {
                              if (!error) PeerConnection(std::move(sending->connection)).release(take);
                            });
}

LinkDialer::LinkDialer(asio::io_context& io, Options options, Hooks hooks)
    : options_(std::move(options)),
      hooks_(std::move(hooks)),
      deadline_(Clock::now() + options_.within),
      pause_(kDialPauseFirst),
      dialer_(io, options_.names, options_.trust,
              {[this](PeerConnection connection) { open(std::move(connection)); },
               [this](const Dialer::Failure& failure) { retry(failure.why); }}) {
  dialer_.start({options_.agent, {}, deadline_});
}

void LinkDialer::open(PeerConnection connection) {
  connection_.emplace(std::move(connection));
  opening_ = framed(options_.opening);
  received_.clear();
  connection_->write(asio::buffer(opening_),
                     [this](const std::error_code& error) { error ? retry(error.message()) : await_welcome(); });
}

void LinkDialer::await_welcome() {
  connection_->read_some(asio::buffer(input_), [this](const std::error_code& error, std::size_t count) {
    error ? retry(options_.no_welcome) : receive(count);
  });
}

void LinkDialer::receive(std::size_t count) {
  received_.append(input_.data(), count);
  const std::string welcome = framed(options_.welcome);
  if (received_ == welcome) return hand_over();
  welcome.starts_with(received_) ? await_welcome() : retry(options_.other_answer);
}

void LinkDialer::hand_over() {
  dialer_.stop();
  std::move(*connection_).release(hooks_.on_linked);
  connection_.reset();
}

void LinkDialer::retry(const std::string& why) {
  connection_.reset();
  dialer_.stop();
  if (Clock::now() + pause_ >= deadline_) return hooks_.on_failed(why);
  dialer_.start({options_.agent, pause_, deadline_});
  pause_ = std::min<Duration>(2 * pause_, kDialPauseMax);
}

}  // namespace ddprun::rendezvous
