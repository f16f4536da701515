#include "rendezvous/store/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kPiecesPerWrite = 64;

bool is_retryable(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

ssize_t send_front(int fd, const OutputQueue& output) {
  std::array<iovec, kPiecesPerWrite> pieces;
  const std::size_t count = output.next(pieces);
  if (count == 1) return ::send(fd, pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL);  // cheaper than sendmsg
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = count;
  return sendmsg(fd, &message, MSG_NOSIGNAL);
}

}  // namespace

Connection::Connection(ClientId id, Fd socket, ConnectionHost& host)
    : id_(id),
      socket_(std::move(socket)),
      host_(host),
      deadline_(Clock::now() + host.limits.validate_within),
      charge_(host.memory) {
  const int on = 1;
  setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

std::uint32_t Connection::awaited() const {
  const bool reading = !paused_ && !input_closed_;
  const bool wants_output = writing_ || (paused_ && !held_);  // paused and all written: continues at the next event
  return (reading ? std::uint32_t{EPOLLIN} : 0) | (wants_output ? std::uint32_t{EPOLLOUT} : 0);
}

void Connection::on_ready(std::uint32_t events) {
  const bool broken = (events & (EPOLLERR | EPOLLHUP)) != 0;  // then the next call reports it
  if (writing_ && (broken || (events & EPOLLOUT))) write_some();
  if (broken && held_) return close();  // it cannot take the answer
  if (closed_ || input_closed_) return;
  if (paused_ && !held_ && !output_full()) return take(std::exchange(unread_, {}));
  if (!paused_ && (broken || (events & EPOLLIN))) read_some();
}

void Connection::count() {
  const std::size_t sent_later = host_.values_are_counted_elsewhere ? output_.own_bytes() : output_.size();
  charge_.set(parser_.held_bytes() + unread_.size() + sent_later);
}

bool Connection::close_if_out_of_memory() {
  count();
  if (closed_ || charge_.bytes() <= kAlwaysAllowedBytes || host_.memory.has_room()) return false;
  close();
  return true;
}

void Connection::read_some() {
  const ssize_t n = recv(fd(), host_.scratch.get(), ConnectionHost::kScratchBytes, 0);
  if (n > 0) return take({host_.scratch.get(), static_cast<std::size_t>(n)});
  if (n == 0) return stop_input();
  if (!is_retryable(errno)) close();
}

void Connection::take(std::string_view bytes) {
  const bool was_validated = parser_.validated();
  received_nothing_ = false;
  Parsed parsed = Parsed::complete;
  while (!input_closed_ && !held_ && !output_full() && (parsed = parser_.feed(bytes)) == Parsed::complete)
    host_.on_request(id_, parser_.take());
  if (!was_validated && parser_.validated()) deadline_ = kNever;
  if (parsed == Parsed::bad) stop_input();
  paused_ = !input_closed_ && (output_full() || (held_ && !bytes.empty()));
  if (paused_) unread_.assign(bytes);
}

void Connection::resume() {
  held_ = false;
  if (closed_) return;
  if (input_closed_) return output_.empty() ? close() : void();
  if (paused_ && !output_full()) take(std::exchange(unread_, {}));
}

void Connection::close_after_output() {
  held_ = paused_ = false;
  unread_.clear();
  if (!closed_) stop_input();
}

// Replies to earlier requests are still sent.
void Connection::stop_input() {
  input_closed_ = true;
  if (output_.empty() && !held_) close();
}

void Connection::send(const Reply& reply) {
  if (std::holds_alternative<CloseConnection>(reply)) return stop_input();
  output_.append(reply);
  count();
}

void Connection::send(const Value& bytes) {
  output_.append_bytes(bytes);
  count();
}

void Connection::flush() {
  if (!writing_ && !output_.empty() && !closed_) write_some();
}

// One write a turn: a fast reader of large values must not delay the others.
void Connection::write_some() {
  const ssize_t n = send_front(fd(), output_);
  if (n < 0 && !is_retryable(errno)) return close();
  if (n > 0) output_.consume(static_cast<std::size_t>(n));
  count();
  const bool was_writing = std::exchange(writing_, !output_.empty());
  if (!writing_)
    deadline_ = kNever;
  else if (n > 0 || !was_writing)
    deadline_ = Clock::now() + host_.limits.write_stall_max;
  if (!writing_ && input_closed_ && !held_) close();
}

}  // namespace ddprun::rendezvous
