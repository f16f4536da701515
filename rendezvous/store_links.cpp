#include "rendezvous/store_links.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <optional>
#include <utility>

#include <asio/steady_timer.hpp>

#include "rendezvous/frame.h"
#include "rendezvous/store_opening.h"

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
        resolver_(io),
        socket_(io),
        timer_(io) {}

  void look_up();
  void stop();

 private:
  template <class Function>
  auto guarded(Function function);
  void connect(const tcp::resolver::results_type& addresses, const tcp::resolver::results_type::const_iterator& to);
  void prove();
  void open();
  void await_welcome();
  void hear(std::size_t count);
  void hand_over();
  void try_again(const std::string& why);

  const Options options_;
  const StoreUpstream proxy_;
  const TimePoint deadline_;
  tcp::resolver resolver_;
  tcp::socket socket_;
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

void StoreDialer::Impl::look_up() {
  timer_.expires_at(deadline_);
  timer_.async_wait(guarded([this](const std::error_code& error) {
    if (!error) try_again("it does not answer");
  }));
  const auto found = guarded([this](const std::error_code& error, const tcp::resolver::results_type& addresses) {
    error ? try_again(error.message()) : connect(addresses, addresses.begin());
  });
  resolver_.async_resolve(options_.host, std::to_string(options_.port), found);
}

// One address after the other.
void StoreDialer::Impl::connect(const tcp::resolver::results_type& addresses,
                                const tcp::resolver::results_type::const_iterator& to) {
  const tcp::endpoint endpoint = to->endpoint();
  std::error_code failed;
  // Not opened by Asio, which cannot set close-on-exec before another thread may exec.
  const int fd = ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return try_again(std::generic_category().message(errno));
  socket_.close(failed);
  socket_.assign(endpoint.protocol(), fd, failed);
  if (failed) ::close(fd);
  if (failed) return try_again(failed.message());
  socket_.async_connect(endpoint, guarded([this, addresses, to](const std::error_code& error) {
                          const auto next = std::next(to);
                          if (!error) return prove();
                          next == addresses.end() ? try_again(error.message()) : connect(addresses, next);
                        }));
}

void StoreDialer::Impl::prove() {
  connection_.emplace(std::move(socket_), PeerRole::client, options_.trust);
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
  std::error_code ignored;
  socket_.close(ignored);
  resolver_.cancel();
  connection_.reset();
  if (Clock::now() + pause_ >= deadline_) {
    over_ = true;
    return proxy_.failed("no connection to the store at " + options_.host + ", port " + std::to_string(options_.port) +
                         ": " + why);
  }
  timer_.expires_after(pause_);
  pause_ = std::min<Duration>(2 * pause_, kPauseMost);
  timer_.async_wait(guarded([this](const std::error_code& error) {
    if (!error) look_up();
  }));
}

void StoreDialer::Impl::stop() {
  over_ = true;
  timer_.cancel();
  resolver_.cancel();
  std::error_code ignored;
  socket_.close(ignored);
  connection_.reset();
}

StoreDialer::StoreDialer(asio::io_context& io, Options options, StoreUpstream proxy)
    : impl_(std::make_shared<Impl>(io, std::move(options), std::move(proxy))) {
  impl_->look_up();
}

StoreDialer::~StoreDialer() { impl_->stop(); }

}  // namespace ddprun
