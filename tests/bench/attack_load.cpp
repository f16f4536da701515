// Unauthenticated peers of a store, from another address than its clients:
//   attack_load HOW PORT [SOURCES CONNECTIONS [FIRST]]
//     until SIGTERM: so many connections as it gets, each in place of one that was answered or closed; then how many a
//     second. HOW: close (at once), garbage, half (of the first frame, and silence), plain (the store's protocol),
//     hello (TLS, half of it), wrong (a TLS hello by another token), replay (one by the right token, said again).
//     SOURCES: so many addresses, from FIRST on; 0: each connection has a new one. A connection that the kernel does
//     not answer for a second is tried anew.
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/time.h"
#include "rendezvous/peer/tls_context.h"
#include "rendezvous/peer/token.h"
#include "rendezvous/store/protocol.h"
#include "tests/bench/loopback.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::bench;

namespace {

constexpr std::size_t kConnectionsHeld = 2000;           // by those that wait for nothing
constexpr std::size_t kConnectionsAtATime = 256;         // by those that are answered
constexpr in_addr_t kPeerAddress = INADDR_LOOPBACK + 1;  // as on another machine
constexpr in_addr_t kFirstOfMany = 0x7f100000;           // 127.16.0.0
constexpr std::chrono::seconds kPatience{1};
constexpr const char* kToken = "00112233445566778899aabbccddeeff";  // store_main's
constexpr const char* kOtherToken = "ffeeddccbbaa99887766554433221100";

// Connected, or about to be.
Fd connecting(in_addr_t from, std::uint16_t port) {
  Fd fd(tcp_socket(SOCK_NONBLOCK));
  if (!bind_to(fd.get(), from)) fail("bind");
  if (!connect_to(fd.get(), port) && errno != EINPROGRESS && errno != EAGAIN && errno != EINTR) fail("connect");
  return fd;
}

std::string hello_with(const char* token) {
  TlsContext context(std::get<Token>(Token::parse(token)), "job");
  const auto session = context.open(PeerRole::client);
  session->handshake();
  std::string hello(16 << 10, '\0');
  hello.resize(session->take_out(hello.data(), hello.size()));
  return hello;
}

struct Attack {
  std::string payload = {};
  bool closes = false;  // at once
  std::size_t connections = kConnectionsAtATime;
  std::size_t sources = 1;  // 0: a new one each time
  in_addr_t first_source = kPeerAddress;
};

Attack make_attack(const std::string& how) {
  const std::string validate = encode({Op::validate, {}, {}, kMagic});
  if (how == "close") return {.closes = true};
  if (how == "half") return {.payload = validate.substr(0, 3), .connections = kConnectionsHeld};
  if (how == "plain") return {.payload = validate + encode({Op::ping, {}, {}, 7}) + encode({Op::num_keys})};
  if (how == "hello") return {.payload = hello_with(kToken).substr(0, 100), .connections = kConnectionsHeld};
  if (how == "wrong") return {.payload = hello_with(kOtherToken)};
  if (how == "replay") return {.payload = hello_with(kToken)};
  if (how != "garbage") throw std::invalid_argument("there is no attack '" + how + "'");
  std::string garbage(4096, '\0');
  std::minstd_rand random(1);
  for (char& byte : garbage) byte = static_cast<char>(random());
  garbage[0] = '\xff';  // the store's first byte is 0, and TLS's 0x16
  return {.payload = garbage};
}

volatile std::sig_atomic_t stop_requested = 0;

class UnauthenticatedPeers {
 public:
  UnauthenticatedPeers(Attack attack, std::uint16_t port)
      : attack_(std::move(attack)), port_(port), held_(attack_.connections) {}
  void run() {
    const TimePoint start = Clock::now();
    std::array<epoll_event, 512> events{};
    std::size_t next = 0;
    while (!stop_requested) {
      for (int burst = 0; burst < 16 && next < held_.size(); ++burst) connect_one(attack_.closes ? 0 : next++);
      const int wait_ms = next < held_.size() ? 0 : 50;
      if (next == held_.size()) retry_some();
      const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms);
      for (int i = 0; i < count; ++i) receive(events[static_cast<std::size_t>(i)]);
    }
    std::printf("%.0f\n", static_cast<double>(count_) / std::chrono::duration<double>(Clock::now() - start).count());
  }

 private:
  void connect_one(std::size_t number) {
    const std::size_t source = attack_.sources ? number % attack_.sources : static_cast<std::size_t>(count_);
    held_[number].fd = connecting(attack_.first_source + static_cast<in_addr_t>(source), port_);
    held_[number].retry_at = Clock::now() + kPatience;
    ++count_;
    if (attack_.closes) return;
    epoll_event event{EPOLLIN | EPOLLOUT | EPOLLET, {.u64 = number}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, held_[number].fd.get(), &event) != 0) fail("epoll_ctl");
  }
  void receive(const epoll_event& event) {
    if (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) return connect_one(event.data.u64);  // answered, or closed
    const std::string& payload = attack_.payload;
    held_[event.data.u64].retry_at = TimePoint::max();
    if (!payload.empty()) send(held_[event.data.u64].fd.get(), payload.data(), payload.size(), MSG_NOSIGNAL);
  }

  void retry_some() {
    const TimePoint now = Clock::now();
    if (now < retry_next_) return;
    retry_next_ = now + kPatience / 20;
    for (std::size_t number = 0; number < held_.size(); ++number)
      if (held_[number].retry_at <= now) connect_one(number);
  }

  struct Held {
    Fd fd = {};
    TimePoint retry_at = TimePoint::max();
  };
  const Attack attack_;
  const std::uint16_t port_;
  const Fd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  std::vector<Held> held_;
  TimePoint retry_next_ = {};
  long count_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3 && argc != 5 && argc != 6)
    return std::fputs("usage: attack_load HOW PORT [SOURCES CONNECTIONS [FIRST]]\n", stderr), 2;
  struct sigaction end {};
  end.sa_handler = [](int) { stop_requested = 1; };
  sigaction(SIGTERM, &end, nullptr);
  Attack attack = make_attack(argv[1]);
  if (argc > 4) {
    attack.sources = std::stoul(argv[3]);
    attack.connections = std::stoul(argv[4]);
    attack.first_source = argc > 5 ? ntohl(inet_addr(argv[5])) : kFirstOfMany;
  }
  UnauthenticatedPeers(std::move(attack), port_of(argv[2])).run();
} catch (const std::exception& error) {
  std::fprintf(stderr, "attack_load: %s\n", error.what());
  return 1;
}
