#include "rendezvous/store/proxy/store_links.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <asio/steady_timer.hpp>

#include "rendezvous/peer/connector.h"
#include "rendezvous/peer/frame.h"
#include "rendezvous/store/proxy/store_opening.h"

namespace ddprun {
namespace {

using asio::ip::tcp;

constexpr std::chrono::milliseconds kPauseFirst{20}, kPauseMost{500};
constexpr std::size_t kWelcomeBytesMax = 256;

// A connection, and bytes on their way over it.
struct Sending {
  PeerConnection connection;
  std::string bytes;
};

// `done` gets the connection where all went well.
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

class StoreDialer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, Options options, StoreUpstream proxy)
      : options_(std::move(options)),
        proxy_(std::move(proxy)),
        deadline_(Clock::now() + options_.within),
        connector_(io, options_.names ? options_.names : std::make_shared<Resolver>(io),
                   {[this](tcp::socket socket) { prove(std::move(socket)); },
                    [this](const Connector::Failure& failure) { try_again(failure.why); }}),
        timer_(io) {}

  void connect();
  void stop();

 private:
  template <class Function>
  auto guarded(Function function);
  void prove(tcp::socket socket);
  void open();
  void await_welcome();
  void hear(std::size_t count);
  void hand_over();
  void try_again(const std::string& why);

  const Options options_;
  const StoreUpstream proxy_;
  const TimePoint deadline_;
  Connector connector_;
  asio::steady_timer timer_;
  Duration pause_ = kPauseFirst;
  std::uint64_t attempt_ = 0;  // what comes of an older one comes too late
  std::optional<PeerConnection> connection_;
  std::string opening_, heard_;
  std::array<char, kWelcomeBytesMax> input_{};
  bool over_ = false;
};

template <class Function>
auto StoreDialer::Impl::guarded(Function function) {
  return [self = shared_from_this(), attempt = attempt_, function = std::move(function)](const auto&... arguments) {
    if (!self->over_ && attempt == self->attempt_) function(arguments...);
  };
}

void StoreDialer::Impl::connect() {
  timer_.expires_at(deadline_);
  timer_.async_wait(guarded([this](const std::error_code& error) {
    if (!error) try_again("it does not answer");
  }));
  connector_.start({options_.host, options_.port});
}

void StoreDialer::Impl::prove(tcp::socket socket) {
  connection_.emplace(std::move(socket), PeerRole::client, options_.trust);
  connection_->handshake(
      deadline_, guarded([this](const std::string& refusal) { refusal.empty() ? open() : try_again(refusal); }));
}

void StoreDialer::Impl::open() {
  opening_ = framed(encode_store_opening(options_.round));
  heard_.clear();
  connection_->write(asio::buffer(opening_), guarded([this](const std::error_code& error) {
                       error ? try_again(error.message()) : await_welcome();
                     }));
}

void StoreDialer::Impl::await_welcome() {
  connection_->read_some(asio::buffer(input_), guarded([this](const std::error_code& error, std::size_t count) {
                           error ? try_again("it has no store of this round") : hear(count);
                         }));
}

void StoreDialer::Impl::hear(std::size_t count) {
  heard_.append(input_.data(), count);
  const std::string welcome = framed(store_welcome());
  if (heard_ == welcome) return hand_over();
  welcome.starts_with(heard_) ? await_welcome() : try_again("it does not answer as a store");
}

void StoreDialer::Impl::hand_over() {
  over_ = true;
  timer_.cancel();
  std::move(*connection_).release([proxy = proxy_](ReleasedPeer store) { proxy.connected(std::move(store)); });
  connection_.reset();
}

void StoreDialer::Impl::try_again(const std::string& why) {
  ++attempt_;
  connector_.stop();
  connection_.reset();
  if (Clock::now() + pause_ >= deadline_) {
    over_ = true;
    return proxy_.failed("no connection to the store at " + options_.host + ", port " + std::to_string(options_.port) +
                         ": " + why);
  }
  timer_.expires_after(pause_);
  pause_ = std::min<Duration>(2 * pause_, kPauseMost);
  timer_.async_wait(guarded([this](const std::error_code& error) {
    if (!error) connect();
  }));
}

void StoreDialer::Impl::stop() {
  over_ = true;
  timer_.cancel();
  connector_.stop();
  connection_.reset();
}

StoreDialer::StoreDialer(asio::io_context& io, Options options, StoreUpstream proxy)
    : impl_(std::make_shared<Impl>(io, std::move(options), std::move(proxy))) {
  impl_->connect();
}

StoreDialer::~StoreDialer() { impl_->stop(); }

}  // namespace ddprun
