#include "rendezvous/store/proxy/store_links.h"

#include <algorithm>
#include <utility>

#include "rendezvous/peer/frame.h"
#include "rendezvous/store/proxy/store_opening.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::chrono::milliseconds kPauseFirst{20}, kPauseMax{500};

// A connection, and the bytes being sent over it.
struct Sending {
  PeerConnection connection;
  std::string bytes;
};

// `done` gets the connection if all went well.
void send(PeerConnection connection, std::string bytes, std::function<void(PeerConnection)> done) {
  const auto sending = std::make_shared<Sending>(Sending{std::move(connection), std::move(bytes)});
  sending->connection.write(asio::buffer(sending->bytes),
                            [sending, done = std::move(done)](const std::error_code& error) {
                              if (!error) done(std::move(sending->connection));
                            });
}

}  // namespace

void serve_store(PeerConnection connection, const StoreGateway& store) {
  send(std::move(connection), framed(store_welcome()), [store](PeerConnection welcomed) {
    std::move(welcomed).release([store](ReleasedPeer peer) { store.serve(std::move(peer)); });
  });
}

StoreDialer::StoreDialer(asio::io_context& io, Options options, StoreUpstream proxy)
    : options_(std::move(options)),
      proxy_(std::move(proxy)),
      deadline_(Clock::now() + options_.within),
      pause_(kPauseFirst),
      dialer_(io, options_.names, options_.trust,
              {[this](PeerConnection connection) { open(std::move(connection)); },
               [this](const Dialer::Failure& failure) { retry(failure.why); }}) {
  dialer_.start({{options_.host, options_.port}, {}, deadline_});
}

void StoreDialer::open(PeerConnection connection) {
  connection_.emplace(std::move(connection));
  opening_ = framed(encode_store_opening(options_.round));
  received_.clear();
  connection_->write(asio::buffer(opening_),
                     [this](const std::error_code& error) { error ? retry(error.message()) : await_welcome(); });
}

void StoreDialer::await_welcome() {
  connection_->read_some(asio::buffer(input_), [this](const std::error_code& error, std::size_t count) {
    error ? retry("it has no store for this round") : receive(count);
  });
}

void StoreDialer::receive(std::size_t count) {
  received_.append(input_.data(), count);
  const std::string welcome = framed(store_welcome());
  if (received_ == welcome) return hand_over();
  welcome.starts_with(received_) ? await_welcome() : retry("it does not answer as a store");
}

void StoreDialer::hand_over() {
  dialer_.stop();
  std::move(*connection_).release([proxy = proxy_](ReleasedPeer store) { proxy.connected(std::move(store)); });
  connection_.reset();
}

void StoreDialer::retry(const std::string& why) {
  connection_.reset();
  dialer_.stop();
  if (Clock::now() + pause_ >= deadline_)
    return proxy_.failed("no connection to the store at " + options_.host + ", port " + std::to_string(options_.port) +
                         ": " + why);
  dialer_.start({{options_.host, options_.port}, pause_, deadline_});
  pause_ = std::min<Duration>(2 * pause_, kPauseMax);
}

}  // namespace ddprun::rendezvous
