#include "agent/http/http_client.h"

#include <algorithm>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <asio/write.hpp>

namespace ddprun::agent {

HttpClient::HttpClient(asio::io_context& io)
    : connector_(io, std::make_shared<rendezvous::Resolver>(io),
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
  stop();
  running_ = std::make_shared<int>();
  post_ = std::move(post);
  done_ = std::move(done);
  output_ = post_bytes(post_.url, post_.headers, post_.json);
  received_.clear();
  limit_.expires_after(within);
  limit_.async_wait(of_this_post([this](const std::error_code& error) {
    if (!error) finish({.why = "it has not answered in time"});
  }));
  connector_.start({post_.url.host, post_.url.port});
}

void HttpClient::stop() {
  running_.reset();
  connector_.stop();
  limit_.cancel();
  std::error_code ignored;
  if (stream_) stream_->close(ignored);
  stream_.reset();
  done_ = {};
}

void HttpClient::connected(asio::ip::tcp::socket socket) {
  stream_ = std::make_shared<HttpStream>(std::move(socket), post_.url.https ? post_.tls : OpenTls());
  stream_->handshake(of_this_post([this](const std::error_code& error, std::size_t) {
    error ? fail(error, "the handshake of TLS failed: ") : send();
  }));
}

// An answer may come before all has been sent.
void HttpClient::send() {
  asio::async_write(*stream_, asio::buffer(output_),
                    of_this_post([this, stream = stream_](const std::error_code&, std::size_t) { output_ = {}; }));
  receive();
}

void HttpClient::receive() {
  stream_->async_read_some(asio::buffer(chunk_), of_this_post([this](const std::error_code& error, std::size_t count) {
                             error ? fail(error, "") : take(count);
                           }));
}

void HttpClient::take(std::size_t count) {
  received_.append(chunk_.data(), count);
  const ParsedAnswer answer = parse_answer(received_);
  if (answer.state == ParsedAnswer::need_more) return receive();
  finish({answer.status, answer.retry_after, answer.complaint});
}

void HttpClient::fail(const std::error_code& error, const char* what) {
  if (!stream_->why().empty()) return finish({.why = stream_->why()});
  finish({.why = error == asio::error::eof ? "it closed the connection without an answer" : what + error.message()});
}

void HttpClient::finish(const PostResult& result) {
  const Done done = std::exchange(done_, {});
  stop();
  done(result);
}

}  // namespace ddprun::agent
