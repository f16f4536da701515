#include "rendezvous/peer/connector.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <asio/error.hpp>

#include "rendezvous/base/fd.h"

namespace ddprun::rendezvous {
namespace {

using asio::ip::tcp;

constexpr std::chrono::seconds kLookUpLimit{2};            // it continues for the next attempt
constexpr std::chrono::milliseconds kConnectLimit{1'500};  // per address: a firewall or a broken link
constexpr std::size_t kAddressesMax = 8;

tcp::endpoint endpoint_of(const Address& address) {
  tcp::endpoint out;
  out.resize(address.size);
  std::memcpy(out.data(), &address.storage, address.size);
  return out;
}

// Not opened by Asio, which cannot set close-on-exec before another thread may exec.
std::error_code open(tcp::socket& socket, const tcp::endpoint& to) {
  std::error_code failed;
  Fd fd(::socket(to.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return {errno, std::system_category()};
  socket.assign(to.protocol(), fd.get(), failed);
  if (!failed) fd.release();
  return failed;
}

}  // namespace

Connector::Connector(asio::io_context& io, std::shared_ptr<Resolver> names, Hooks hooks)
    : names_(std::move(names)), hooks_(std::move(hooks)), socket_(io), limit_(io) {}

// A handler that is already queued runs even after our destruction.
template <class Function>
auto Connector::guarded(Function function) {
  return [attempt = std::weak_ptr<const int>(attempt_), function = std::move(function)](const auto&... arguments) {
    if (!attempt.expired()) function(arguments...);
  };
}

void Connector::start(const ControlAddress& address) {
  stop();
  attempt_ = std::make_shared<int>();
  port_ = address.port;
  names_->resolve(address.host, kLookUpLimit, guarded([this](const LookUp& found) {
                    if (found.no_such_host) return fail({"no such host: " + found.error});
                    if (!found.error.empty()) return fail({"its name cannot be looked up: " + found.error});
                    addresses_ = found.addresses;
                    addresses_.resize(std::min(addresses_.size(), kAddressesMax));
                    connect(0);
                  }));
}

void Connector::stop() {
  attempt_.reset();
  limit_.cancel();
  std::error_code ignored;
  socket_.close(ignored);
}

void Connector::connect(std::size_t nth) {
  attempt_ = std::make_shared<int>();
  const tcp::endpoint to = endpoint_of(with_port(addresses_[nth], port_));
  std::error_code ignored;
  socket_.close(ignored);
  if (const std::error_code failed = open(socket_, to)) return next(nth, failed);
  limit_.expires_after(kConnectLimit);
  limit_.async_wait(guarded([this, nth](const std::error_code& error) {
    if (!error) next(nth, asio::error::timed_out);
  }));
  socket_.async_connect(to, guarded([this, nth](const std::error_code& error) {
                          if (error) return next(nth, error);
                          const auto connected = hooks_.on_connected;
                          tcp::socket socket = std::move(socket_);
                          stop();
                          connected(std::move(socket));
                        }));
}

void Connector::next(std::size_t tried, const std::error_code& error) {
  if (tried + 1 < addresses_.size()) return connect(tried + 1);
  if (error == asio::error::timed_out) return fail({"it does not answer"});
  fail({error.message(), error == asio::error::connection_refused});
}

void Connector::fail(const Failure& failure) {
  const auto failed = hooks_.on_failed;
  stop();
  failed(failure);
}

}  // namespace ddprun::rendezvous
