#include "rendezvous/store/peer_stream.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kScratchBytes = 128 << 10;
constexpr std::size_t kPiecesPerWrite = 64;
constexpr std::size_t kEncryptedBytes = 64 << 10;  // what is encrypted at a time
constexpr std::size_t kBytesPerFlush = 4 << 20;    // then other connections have their turn

bool is_retryable(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

ssize_t send_front(int fd, const OutputQueue& output) {
  std::array<iovec, kPiecesPerWrite> pieces;
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = output.next(pieces);
  return sendmsg(fd, &message, MSG_NOSIGNAL);
}

}  // namespace

PeerStream::PeerStream(ReleasedPeer peer)
    : identity_(std::move(peer.peer)),
      socket_(std::move(peer.socket)),
      tls_(std::move(peer.tls)),
      session_(std::move(peer.session)),
      received_(std::move(peer.received)),
      scratch_(new char[kScratchBytes]) {
  fcntl(fd(), F_SETFL, fcntl(fd(), F_GETFL) | O_NONBLOCK);
}

// A close_notify, as far as the socket takes it: it tells the other side that nobody cut the connection.
PeerStream::~PeerStream() {
  if (!session_ || !why_.empty() || !encrypted_.empty()) return;
  session_->write_close_notify();
  const std::size_t count = session_->take_out(scratch_.get(), kScratchBytes);
  [[maybe_unused]] const ssize_t ignored = ::send(fd(), scratch_.get(), count, MSG_NOSIGNAL);
}

bool PeerStream::read(const std::function<void(std::string_view)>& take) {
  if (!received_.empty()) take(std::exchange(received_, {}));
  const ssize_t n = recv(fd(), scratch_.get(), kScratchBytes, 0);
  if (n < 0 && !is_retryable(errno)) return fail(errno);
  if (n < 0) return !session_ || decrypt(take);  // bytes received before release()
  if (n == 0) return fail(session_ ? "the connection was cut" : "the other side closed the connection");
  const std::string_view bytes(scratch_.get(), static_cast<std::size_t>(n));
  if (!session_) return take(bytes), true;
  session_->take_in(bytes);
  return decrypt(take);
}

// To the last byte: the poller does not report bytes that wait inside TLS.
bool PeerStream::decrypt(const std::function<void(std::string_view)>& take) {
  for (std::size_t count = 0;;) {
    const TlsResult result = session_->read(scratch_.get(), kScratchBytes, count);
    if (result == TlsResult::need_input) return true;
    if (result == TlsResult::closed) return fail("the other side closed the connection");
    if (result == TlsResult::failed) return fail(session_->why());
    take({scratch_.get(), count});
  }
}

bool PeerStream::flush() {
  for (std::size_t sent = 0; sent < kBytesPerFlush;) {
    const std::size_t before = sent;
    if (!(session_ ? send_encrypted(sent) : send_plain(sent))) return false;
    if (sent == before) break;
    sent_ += sent - before;
  }
  writing_ = !encrypted_.empty() || !output_.empty();
  return true;
}

bool PeerStream::send_plain(std::size_t& sent) {
  if (output_.empty()) return true;
  const ssize_t n = send_front(fd(), output_);
  if (n < 0) return is_retryable(errno) || fail(errno);
  output_.consume(static_cast<std::size_t>(n));
  sent += static_cast<std::size_t>(n);
  return true;
}

bool PeerStream::send_encrypted(std::size_t& sent) {
  if (encrypted_.empty() && !encrypt_some()) return fail(session_->why());
  if (encrypted_.empty()) return true;
  const ssize_t n = send_front(fd(), encrypted_);
  if (n < 0) return is_retryable(errno) || fail(errno);
  encrypted_.consume(static_cast<std::size_t>(n));
  sent += static_cast<std::size_t>(n);
  return true;
}

bool PeerStream::encrypt_some() {
  for (std::size_t room = kEncryptedBytes; room > 0 && !output_.empty();) {
    std::array<iovec, 1> piece;
    output_.next(piece);
    const std::size_t count = std::min(piece[0].iov_len, room);
    if (session_->write({static_cast<const char*>(piece[0].iov_base), count}) != TlsResult::done) return false;
    output_.consume(count);
    room -= count;
  }
  // Also TLS's own messages, such as new keys.
  while (const std::size_t count = session_->take_out(scratch_.get(), kScratchBytes))
    encrypted_.append_bytes({scratch_.get(), count});
  return true;
}

bool PeerStream::fail(const std::string& why) {
  why_ = why.empty() ? "it failed" : why;
  return false;
}

bool PeerStream::fail(int error) {
  return fail(error == ECONNRESET || error == EPIPE ? "the other side closed the connection"
                                                    : std::generic_category().message(error));
}

}  // namespace ddprun::rendezvous
