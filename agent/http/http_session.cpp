#include "agent/http/http_session.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/write.hpp>

namespace ddprun::agent {

HttpSession::HttpSession(asio::ip::tcp::socket socket, const OpenTls& tls, const HttpLimits& limits, const Hooks& hooks)
    : socket_(std::move(socket), tls), timer_(socket_.get_executor()), limits_(limits), hooks_(hooks) {}

void HttpSession::start() {
  std::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  limit(limits_.request_within);
  receive();
}

// What has not happened by then ends the connection.
void HttpSession::limit(Duration time) {
  timer_.expires_after(time);
  timer_.async_wait([self = shared_from_this()](const std::error_code& error) {
    if (!error && self->timer_.expiry() <= Clock::now()) self->end();
  });
}

void HttpSession::receive() {
  socket_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this()](const std::error_code& error, std::size_t count) {
                            if (self->closed_) return;
                            if (error) return self->end();
                            self->received_.append(self->chunk_.data(), count);
                            self->take_requests();
                          });
}

void HttpSession::take_requests() {
  if (!std::exchange(in_request_, true)) limit(limits_.request_within);
  const ParsedRequest parsed = parse_request(received_);
  if (parsed.state == ParsedRequest::need_more) return receive();
  timer_.expires_at(TimePoint::max());
  head_only_ = false;
  keep_alive_ = false;
  if (parsed.state == ParsedRequest::bad) return respond(http_line(parsed.status, parsed.complaint));
  received_.erase(0, parsed.size);
  head_only_ = parsed.request.method == "HEAD";
  keep_alive_ = parsed.request.keep_alive && ++requests_ < limits_.requests_max;
  hooks_.on_request(*this, parsed.request);
}

void HttpSession::respond(const HttpResponse& response) {
  if (closed_) return;
  output_ = to_bytes(response, {head_only_, keep_alive_});
  if (response.stream) keep_alive_ = false;
  if (response.stream && !head_only_) begin_stream();
  write();
}

void HttpSession::write() {
  writing_ = true;
  limit(limits_.write_within);
  asio::async_write(socket_, asio::buffer(output_),
                    [self = shared_from_this()](const std::error_code& error, std::size_t) {
                      if (self->closed_) return;
                      error ? self->end() : self->written();
                    });
}

// What the client sends from now on is not read as requests; that it closes is noticed.
void HttpSession::begin_stream() {
  is_stream_ = true;
  constexpr unsigned kUnacknowledgedMs = 30'000;  // a client whose machine is gone
  setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMs, sizeof kUnacknowledgedMs);
  discard(limits_.linger_bytes_max);
}

void HttpSession::append(const std::string& bytes) {
  if (closed_ || !is_stream_) return;
  if (waiting_output_.size() + bytes.size() > limits_.stream_bytes_max) return end();
  waiting_output_ += bytes;
  if (writing_) return;
  output_ = std::exchange(waiting_output_, {});
  write();
}

void HttpSession::written() {
  output_ = std::exchange(waiting_output_, {});
  writing_ = false;
  if (is_stream_) return output_.empty() ? static_cast<void>(timer_.expires_at(TimePoint::max())) : write();
  if (!keep_alive_) return linger();
  in_request_ = !received_.empty();
  limit(in_request_ ? limits_.request_within : limits_.idle_max);
  in_request_ ? take_requests() : receive();
}

// Closed with unread bytes, a socket resets the connection, and the client may lose the answer.
void HttpSession::linger() {
  std::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  limit(limits_.linger_max);
  discard(limits_.linger_bytes_max);
}

void HttpSession::discard(std::size_t left) {
  socket_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this(), left](const std::error_code& error, std::size_t count) {
                            if (self->closed_) return;
                            if (error || count >= left) return self->end();
                            self->discard(left - count);
                          });
}

void HttpSession::end() {
  if (closed_) return;
  close();
  hooks_.on_end(*this);
}

void HttpSession::close() {
  closed_ = true;
  std::error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
}

}  // namespace ddprun::agent
