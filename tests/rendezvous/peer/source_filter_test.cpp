// Real sockets: a blocked source does not even reach the kernel's queue of connections.
#include "rendezvous/peer/source_filter.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <asio/ip/tcp.hpp>

#include "rendezvous/base/fd.h"
#include "rendezvous/peer/listen_socket.h"
#include "tests/support/test.h"

namespace {

constexpr const char* kAttacker = "127.0.0.2";
constexpr const char* kMember = "127.0.0.3";
const TimePoint t0{};

sockaddr_storage address(const std::string& text, std::uint16_t port) {
  const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(text), port);
  sockaddr_storage storage{};
  std::memcpy(&storage, endpoint.data(), endpoint.size());
  return storage;
}

// Connecting, from `from` to the same family's loopback address.
Fd connecting(const std::string& from, std::uint16_t port) {
  const sockaddr_storage own = address(from, 0), to = address(own.ss_family == AF_INET6 ? "::1" : "127.0.0.1", port);
  Fd fd(socket(own.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  REQUIRE(bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0);
  const int result = connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  REQUIRE((result == 0 || errno == EINPROGRESS));
  return fd;
}

// Over loopback the kernel has answered, or dropped, before connect() returns.
bool is_connected(const Fd& fd) {
  pollfd waiting{fd.get(), POLLOUT, 0};
  return poll(&waiting, 1, 0) == 1 && (waiting.revents & (POLLERR | POLLHUP)) == 0;
}

struct Host {
  explicit Host(const std::string& at = "") : listening(open_listener(at, 0)), fd(listening.fd) {}
  bool accepts(const std::string& source) { return is_connected(connecting(source, listening.port)); }
  Listening listening;
  Fd fd;
  SourceFilter filter{fd.get(), {.failures_per_source_max = 1}};
};

PeerSource source(const std::string& text) { return source_of(address(text, 0)); }

}  // namespace

TEST_CASE("a shut out source reaches nobody, every other source does, and it does again when its time is over",
          "[source filter]") {
  Host host(GENERATE("", "127.0.0.1"));
  CHECK(host.accepts(kAttacker));
  host.filter.on_failure(source(kAttacker), t0);
  CHECK(host.filter.blocks(source(kAttacker)));
  CHECK_FALSE(host.accepts(kAttacker));
  CHECK(host.accepts(kMember));
  REQUIRE(host.filter.next_deadline() == t0 + 1s);
  host.filter.unblock_expired(t0 + 1s);
  CHECK(host.accepts(kAttacker));
}

TEST_CASE("an IPv6 network is shut out as an IPv4 address is, and neither for the other", "[source filter]") {
  Host host;
  const std::string other = "2001:db8::1";
  host.filter.on_failure(source(other), t0);
  host.filter.on_failure(source("0:0:1::1"), t0);  // the half of the network that they share is not enough
  CHECK(host.accepts("::1"));
  CHECK(host.accepts(kMember));
  host.filter.on_failure(source("::1"), t0);
  CHECK_FALSE(host.accepts("::1"));
  CHECK(host.accepts(kMember));
  host.filter.on_success(source("::1"));
  CHECK(host.accepts("::1"));
}

TEST_CASE("connections that were there before are not touched", "[source filter]") {
  Host host;
  const Fd before = connecting(kAttacker, host.listening.port);
  REQUIRE(is_connected(before));
  const Fd accepted(accept4(host.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  host.filter.on_failure(source(kAttacker), t0);
  char byte = 'x';
  CHECK(send(before.get(), &byte, 1, MSG_NOSIGNAL) == 1);
  CHECK(recv(accepted.get(), &byte, 1, 0) == 1);
}

TEST_CASE("of more sources than the kernel is told of, the others are turned away still", "[source filter]") {
  Host host;
  const int others = GENERATE(300, 2000);
  for (int i = 0; i < others; ++i)
    host.filter.on_failure(source("10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250)), t0);
  host.filter.on_failure(source(kAttacker), t0);
  CHECK(host.accepts(kAttacker));  // the kernel is told once this has cost something
  for (int i = 0; i < 200; ++i) host.filter.on_turned_away();
  CHECK(host.accepts(kAttacker) == (others == 2000));
  CHECK(host.accepts(kMember));
  CHECK(host.filter.blocks(source(kAttacker)));
  host.filter.unblock_expired(t0 + 1s);
  CHECK_FALSE(host.filter.blocks(source(kAttacker)));
  CHECK(host.accepts(kAttacker));
}
