#include "agent/http/http_client.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>

#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <asio/write.hpp>

namespace ddprun::agent {
namespace {

constexpr int kOk = 200;

// A connection that waits finds out that the other machine is gone: after 10 s of silence, by three probes.
void keep_alive(int fd) {
  const auto set = [fd](int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace

HttpClient::HttpClient(asio::io_context& io, std::shared_ptr<rendezvous::Resolver> names)
    : connector_(io, names ? std::move(names) : std::make_shared<rendezvous::Resolver>(io),
                 {[this](asio::ip::tcp::socket socket) { connected(std::move(socket)); },
                  [this](const rendezvous::Connector::Failure& failure) { finish({.why = failure.why}); }}),
      limit_(io) {}

HttpClient::~HttpClient() { stop(); }

template <class Function>
auto HttpClient::of_this_post(Function function) {
  return [running = std::weak_ptr<const int>(running_), function = std::move(function)](const auto&... arguments) {
    if (!running.expired()) function(arguments...);
  };
}

void HttpClient::post(HttpPost post, Duration within, Done done) {
  used_ = keeps_ && post.url.host == post_.url.host && post.url.port == post_.url.port;
  used_ ? end_post() : stop();
  running_ = std::make_shared<int>();
  post_ = std::move(post);
  done_ = std::move(done);
  output_ = post_bytes(post_.url, post_.headers, post_.json, post_.keep ? AfterAnswer::keep : AfterAnswer::close);
  reader_ = {};
  body_.clear();
  limit_.expires_after(within);
  limit_.async_wait(of_this_post([this](const std::error_code& error) {
    if (!error) finish({.why = "it has not answered in time"});
  }));
  used_ ? send() : connector_.start({post_.url.host, post_.url.port});
}

void HttpClient::stop() {
  end_post();
  std::error_code ignored;
  if (stream_) stream_->close(ignored);
  stream_.reset();
  keeps_ = false;
}

void HttpClient::end_post() {
  running_.reset();
  connector_.stop();
  limit_.cancel();
  done_ = {};
}

void HttpClient::connected(asio::ip::tcp::socket socket) {
  std::error_code ignored;
  local_address_ = socket.local_endpoint(ignored).address().to_string();
  if (post_.keep) keep_alive(socket.native_handle());
  stream_ = std::make_shared<HttpStream>(std::move(socket), post_.url.https ? post_.tls : OpenTls());
  stream_->handshake(of_this_post([this](const std::error_code& error, std::size_t) {
    error ? fail(error, "the handshake of TLS failed: ") : send();
  }));
}

// An answer may come before all has been sent.
void HttpClient::send() {
  asio::async_write(*stream_, asio::buffer(output_),
                    of_this_post([this, stream = stream_](const std::error_code&, std::size_t) {
                      if (!post_.keep) output_ = {};
                    }));
  receive();
}

void HttpClient::receive() {
  stream_->async_read_some(asio::buffer(chunk_), of_this_post([this](const std::error_code& error, std::size_t count) {
                             take(error, count);
                           }));
}

void HttpClient::take(const std::error_code& error, std::size_t count) {
  error ? reader_.end() : reader_.take({chunk_.data(), count});
  const ParsedAnswer& head = reader_.head();
  const bool is_bad = post_.keep ? reader_.state() == ParsedAnswer::bad : head.state == ParsedAnswer::bad;
  body_ += reader_.take_body();
  if (post_.piece && head.status == kOk && !body_.empty()) {
    limit_.cancel();
    const std::weak_ptr running(running_);
    post_.piece(std::exchange(body_, {}));
    if (running.expired()) return;
  }
  if (is_bad || body_.size() > kAnswerBodyMax)
    return finish({.why = head.complaint.empty() ? "its answer is too large" : head.complaint});
  if (post_.keep ? reader_.state() == ParsedAnswer::complete : head.state == ParsedAnswer::complete)
    return finish({.status = head.status, .retry_after = head.retry_after, .body = std::move(body_)});
  error ? fail(error, "") : receive();
}

// A connection that was kept may have ended before the request.
void HttpClient::fail(const std::error_code& error, const char* what) {
  if (std::exchange(used_, false) && !reader_.has_begun()) {
    stream_.reset();
    return connector_.start({post_.url.host, post_.url.port});
  }
  if (!stream_->why().empty()) return finish({.why = stream_->why(), .tls_failed = true});
  finish({.why = error == asio::error::eof ? "it closed the connection without an answer" : what + error.message()});
}

void HttpClient::finish(const PostResult& result) {
  const Done done = std::exchange(done_, {});
  const bool keeps = result.status != 0 && post_.keep && reader_.keeps_connection();
  keeps ? end_post() : stop();
  keeps_ = keeps;
  done(result);
}

}  // namespace ddprun::agent
