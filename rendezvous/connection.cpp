#include "rendezvous/connection.h"

#include <array>
#include <cstdio>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/post.hpp>

namespace ddprun {
namespace {

bool try_again(const std::error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again || error == asio::error::interrupted;
}

}  // namespace

Connection::Connection(ClientId id, asio::ip::tcp::socket socket, ConnectionHost& host)
    : id_(id), socket_(std::move(socket)), deadline_(socket_.get_executor()), host_(host) {}

void Connection::start() {
  std::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  limit_next(host_.limits.validate_within);
  await_input();
}

void Connection::close() {
  if (!socket_.is_open()) return;
  std::error_code ignored;
  socket_.close(ignored);
  deadline_.cancel();
  host_.on_closed(id_);
}

// Whatever goes wrong with one client, memory included, must not reach the others.
void Connection::attempt(Step step) {
  try {
    (this->*step)();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddprun: the store drops a client: %s\n", error.what());
    close();
  }
}

void Connection::await_input() {
  socket_.async_wait(asio::socket_base::wait_read, [self = shared_from_this()](const std::error_code& error) {
    if (!error) self->attempt(&Connection::on_readable);
  });
}

void Connection::on_readable() {
  std::error_code error;
  const std::size_t n = socket_.read_some(asio::buffer(host_.scratch.get(), ConnectionHost::kScratchBytes), error);
  if (try_again(error)) return await_input();
  if (error == asio::error::eof) return stop_input();
  if (error) return close();
  take({host_.scratch.get(), n});
}

void Connection::take(std::string_view bytes) {
  const bool was_validated = parser_.validated();
  Parsed parsed = Parsed::complete;
  while (!input_over_ && !over_full() && (parsed = parser_.feed(bytes)) == Parsed::complete)
    host_.on_request(id_, parser_.take());
  if (!was_validated && parser_.validated()) {
    lift_limit();
    host_.on_validated(id_);
  }
  if (parsed == Parsed::bad) stop_input();
  paused_ = !input_over_ && over_full();
  if (paused_) unread_.assign(bytes);
  if (!paused_ && !input_over_ && socket_.is_open()) await_input();
  host_.on_turn_over();
}

void Connection::go_on() {
  if (!paused_ || !socket_.is_open()) return;
  paused_ = false;
  take(std::exchange(unread_, {}));
}

// Replies to what came before still go out.
void Connection::stop_input() {
  input_over_ = true;
  host_.on_input_over(id_);
  if (output_.empty()) close();
}

void Connection::send(const Reply& reply) {
  if (std::holds_alternative<Hangup>(reply)) return stop_input();
  output_.append(reply);
}

void Connection::flush() {
  if (!writing_ && !output_.empty() && socket_.is_open()) attempt(&Connection::write_some);
}

// One write a turn: a fast reader of large values must not keep the others waiting.
void Connection::write_some() {
  std::vector<asio::const_buffer> buffers;
  for (const std::string_view piece : output_.next()) buffers.emplace_back(piece.data(), piece.size());
  std::error_code error;
  const std::size_t n = socket_.write_some(buffers, error);
  if (error && !try_again(error)) return close();
  output_.consume(n);
  if (n > 0) lift_limit();
  if (n > 0 || !writing_)
    after_write();
  else
    await_room();
}

void Connection::after_write() {
  writing_ = !output_.empty();
  if (writing_) {
    limit_next(host_.limits.deaf_for_max);
    await_room();
  } else if (input_over_) {
    close();
  }
  if (paused_ && !over_full())
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->attempt(&Connection::go_on); });
}

void Connection::await_room() {
  socket_.async_wait(asio::socket_base::wait_write, [self = shared_from_this()](const std::error_code& error) {
    if (!error) self->attempt(&Connection::write_some);
  });
}

void Connection::limit_next(std::chrono::milliseconds limit) {
  deadline_.expires_after(limit);
  deadline_.async_wait([self = shared_from_this()](const std::error_code& error) {
    const bool moved_on = self->deadline_.expiry() > std::chrono::steady_clock::now();  // since this was queued
    if (!error && !moved_on) self->close();
  });
}

void Connection::lift_limit() { deadline_.expires_at(std::chrono::steady_clock::time_point::max()); }

}  // namespace ddprun
