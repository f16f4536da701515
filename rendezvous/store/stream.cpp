#include "rendezvous/store/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>
#include <utility>

#include "rendezvous/peer/resolve.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kBufferBytes = 64 << 10;
constexpr std::size_t kGrowBytes = 1 << 20;
// A host that drops our packets must not use up the time of its other addresses.
constexpr std::chrono::seconds kAddressLimit{3};

std::string message_of(int error) { return std::generic_category().message(error); }

int poll_ms(TimePoint deadline) {
  if (deadline == TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX));
}

// False: the deadline passed.
bool wait_ready(int fd, short events, TimePoint deadline) {
  pollfd waiting{fd, events, 0};
  for (;;) {
    const int n = poll(&waiting, 1, poll_ms(deadline));
    if (n > 0) return true;
    if (n == 0 && Clock::now() >= deadline) return false;
    if (n < 0 && errno != EINTR) throw ConnectionError(message_of(errno));
  }
}

bool is_retryable(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

// 0, or errno.
int finish_connect(int fd, const Address& address, TimePoint deadline) {
  if (connect(fd, address.get(), address.size) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_ready(fd, POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

// A descriptor, or -errno.
int open_connection(const Address& address, TimePoint deadline) {
  Fd socket(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return -errno;
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int error = finish_connect(socket.get(), address, deadline);
  return error == 0 ? socket.release() : -error;
}

}  // namespace

Stream Stream::connect(const std::string& host, std::uint16_t port, TimePoint deadline) {
  int result = -EADDRNOTAVAIL;
  for (const Address& address : resolve(host, port, deadline)) {
    const TimePoint now = Clock::now();
    result = open_connection(address, deadline - now > kAddressLimit ? now + kAddressLimit : deadline);
    if (result >= 0) return Stream(Fd(result));
  }
  throw ConnectionError(message_of(-result));
}

void Stream::write(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(n));
    else if (!is_retryable(errno))
      throw ConnectionError(message_of(errno));
    else if (!wait_ready(fd_.get(), POLLOUT, deadline))
      throw DeadlineExceeded("it does not accept data");
  }
}

std::uint8_t Stream::read_byte(TimePoint deadline) {
  char byte = 0;
  read(&byte, 1, deadline);
  return static_cast<std::uint8_t>(byte);
}

std::uint64_t Stream::read_u64(TimePoint deadline) {
  std::uint64_t number = 0;
  read(reinterpret_cast<char*>(&number), sizeof number, deadline);
  return number;
}

std::uint32_t Stream::read_u32(TimePoint deadline) {
  std::uint32_t number = 0;
  read(reinterpret_cast<char*>(&number), sizeof number, deadline);
  return number;
}

std::string Stream::read_text(std::size_t size_max, TimePoint deadline) {
  const std::uint64_t size = read_u64(deadline);
  if (size > size_max) throw ConnectionError("it announces " + std::to_string(size) + " bytes, which makes no sense");
  std::string text;
  while (text.size() < size) {
    const std::size_t have = text.size(), more = std::min<std::size_t>(kGrowBytes, size - have);
    text.resize(have + more);
    read(text.data() + have, more, deadline);
  }
  return text;
}

void Stream::read(char* to, std::size_t size, TimePoint deadline) {
  while (size > 0) {
    if (taken_ == buffer_.size()) refill(deadline);
    const std::size_t n = std::min(size, buffer_.size() - taken_);
    std::memcpy(to, buffer_.data() + taken_, n);
    taken_ += n;
    to += n;
    size -= n;
  }
}

void Stream::refill(TimePoint deadline) {
  taken_ = 0;
  buffer_.resize(kBufferBytes);
  for (;;) {
    const ssize_t n = recv(fd_.get(), buffer_.data(), buffer_.size(), 0);
    buffer_.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    if (n > 0) return;
    if (n == 0) throw ConnectionError("it closed the connection");
    if (!is_retryable(errno)) throw ConnectionError(message_of(errno));
    if (!wait_ready(fd_.get(), POLLIN, deadline)) throw DeadlineExceeded("no answer");
    buffer_.resize(kBufferBytes);
  }
}

}  // namespace ddprun::rendezvous
