#include "tests/rendezvous/store/raw_peer.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace ddprun::test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kStepLimit{10'000};

bool ready(int fd, short events, milliseconds limit) {
  pollfd waiting{fd, events, 0};
  return poll(&waiting, 1, static_cast<int>(limit.count())) > 0;
}

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

}  // namespace

RawPeer::RawPeer(std::uint16_t port, const std::string& address, const char* source) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) fail("getaddrinfo");
  fd_ = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (source) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    inet_pton(AF_INET, source, &own.sin_addr);
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) fail("bind");
  }
  const int result = connect(fd_, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  if (result == 0) return;
  close(fd_);
  fail("connect");
}

RawPeer::~RawPeer() {
  if (fd_ >= 0) close(fd_);
}

RawPeer& RawPeer::greet() {
  send({rendezvous::Op::validate, {}, {}, rendezvous::kMagic}).send({rendezvous::Op::ping, {}, {}, 7});
  receive(4);
  return *this;
}

RawPeer& RawPeer::send(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!ready(fd_, POLLOUT, kStepLimit)) throw std::runtime_error("the store does not accept data");
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) fail("send");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return *this;
}

std::size_t RawPeer::send_until_stuck(std::string_view bytes, milliseconds quiet) {
  std::size_t sent = 0;
  while (ready(fd_, POLLOUT, quiet)) {
    const std::string_view rest = bytes.substr(sent % bytes.size());
    const ssize_t n = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) fail("send");
    sent += static_cast<std::size_t>(n);
  }
  return sent;
}

std::string RawPeer::receive(std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t have = 0; have < size;) {
    if (!ready(fd_, POLLIN, kStepLimit)) throw std::runtime_error("no answer");
    const ssize_t n = recv(fd_, out.data() + have, size - have, 0);
    if (n < 0) fail("recv");
    if (n == 0) throw std::runtime_error("closed by the store");
    have += static_cast<std::size_t>(n);
  }
  return out;
}

std::int64_t RawPeer::receive_number() {
  std::int64_t number = 0;
  std::memcpy(&number, receive(sizeof number).data(), sizeof number);
  return number;
}

std::string RawPeer::receive_value() { return receive(static_cast<std::size_t>(receive_number())); }

bool RawPeer::closed_within(milliseconds limit) {
  for (const auto until = Clock::now() + limit; Clock::now() < until;) {
    char bytes[4096];
    if (ready(fd_, POLLIN, milliseconds(10)) && recv(fd_, bytes, sizeof bytes, 0) <= 0) return true;
  }
  return false;
}

bool RawPeer::refuses_writes_within(milliseconds limit) {
  for (const auto until = Clock::now() + limit; Clock::now() < until;) try {
      send({rendezvous::Op::num_keys});
      ready(fd_, 0, milliseconds(5));
    } catch (const std::system_error&) {
      return true;
    }
  return false;
}

bool RawPeer::silent_for(milliseconds quiet) { return !ready(fd_, POLLIN, quiet); }

void RawPeer::receive_buffer(int bytes) { setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes); }

void RawPeer::end_input() { shutdown(fd_, SHUT_WR); }

void RawPeer::reset() {
  const linger at_once{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(std::exchange(fd_, -1));
}

}  // namespace ddprun::test
