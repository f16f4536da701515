#include "agent/etcd/etcd_connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>

#include <asio/buffer.hpp>
#include <asio/write.hpp>

namespace ddprun::agent {
namespace {

// A silent watch finds out that its member is gone: after 10 s of silence, three probes.
void keep_alive(int fd) {
  const auto set = [fd](int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace

EtcdConnection::EtcdConnection(asio::io_context& io, std::shared_ptr<rendezvous::Resolver> names, HttpUrl member,
                               OpenTls tls)
    : member_(std::move(member)),
      tls_(std::move(tls)),
      connector_(io, std::move(names),
                 {[this](asio::ip::tcp::socket socket) { connected(std::move(socket)); },
                  [this](const rendezvous::Connector::Failure& failure) { finish({.why = failure.why}); }}) {}

EtcdConnection::~EtcdConnection() {
  std::error_code ignored;
  if (stream_) stream_->close(ignored);
}

template <class Function>
auto EtcdConnection::guarded(Function function) {
  return [alive = std::weak_ptr(alive_), function = std::move(function)](const auto&... arguments) {
    if (!alive.expired()) function(arguments...);
  };
}

void EtcdConnection::post(const std::string& path, const HttpHeaders& headers, const std::string& json, Done done,
                          Piece piece) {
  HttpUrl url = member_;
  url.target = path;
  output_ = post_bytes(url, headers, json, AfterAnswer::keep);
  done_ = std::move(done);
  piece_ = std::move(piece);
  reader_ = {};
  body_.clear();
  used_ = std::exchange(keeps_, false);
  stream_ ? send() : connector_.start({member_.host, member_.port});
}

void EtcdConnection::connected(asio::ip::tcp::socket socket) {
  std::error_code ignored;
  local_address_ = socket.local_endpoint(ignored).address().to_string();
  keep_alive(socket.native_handle());
  stream_ = std::make_unique<HttpStream>(std::move(socket), member_.https ? tls_ : OpenTls());
  stream_->handshake(guarded([this](const std::error_code& error, std::size_t) { error ? fail(error) : send(); }));
}

// An answer may come before all has been sent.
void EtcdConnection::send() {
  asio::async_write(*stream_, asio::buffer(output_), guarded([](const std::error_code&, std::size_t) {}));
  receive();
}

void EtcdConnection::receive() {
  stream_->async_read_some(asio::buffer(chunk_),
                           guarded([this](const std::error_code& error, std::size_t count) { take(error, count); }));
}

void EtcdConnection::take(const std::error_code& error, std::size_t count) {
  error ? reader_.end() : reader_.take({chunk_.data(), count});
  constexpr int kOk = 200;
  body_ += reader_.take_body();
  if (piece_ && reader_.status() == kOk && !body_.empty()) {
    const std::weak_ptr alive(alive_);
    piece_(std::exchange(body_, {}));
    if (alive.expired()) return;
  }
  if (reader_.state() == ParsedAnswer::bad || body_.size() > kAnswerBodyMax)
    return finish({.why = reader_.complaint().empty() ? "its answer is too large" : reader_.complaint()});
  if (reader_.state() == ParsedAnswer::complete) {
    keeps_ = reader_.keeps_connection() && !error;
    return finish({.status = reader_.status(), .body = std::move(body_)});
  }
  error ? fail(error) : receive();
}

void EtcdConnection::fail(const std::error_code& error) {
  const bool stale = used_ && !reader_.has_begun();
  if (!stream_->why().empty()) return finish({.why = stream_->why(), .lasting = true});
  std::string why = error == asio::error::eof ? "it has closed the connection" : error.message();
  if (!member_.https && !used_ && !reader_.has_begun()) why += " (does it want https?)";
  finish({.why = std::move(why), .stale = stale});
}

void EtcdConnection::finish(MemberAnswer answer) {
  piece_ = {};
  std::exchange(done_, {})(answer);
}

}  // namespace ddprun::agent
