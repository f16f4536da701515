// A modest load on a store, and unauthenticated peers beside it:
//   attack_load measure CONNECTIONS RATE SECONDS PORT
//     {requests, late, p50_us, p99_us, max_us}: gets and sets in turns, RATE a second in all, each from its appointed
//     time to its answer, whether or not earlier ones are answered (an open loop: who slows us down does not thin the
//     load). Real-time priority where that may be had, so that whoever shares the processor delays the store, not the
//     clock
//   attack_load attack HOW PORT
//     until SIGTERM: so many connections as it gets, each in place of one that was answered or closed; then how many a
//     second. HOW: close (at once), garbage, half (of the first frame, and silence), plain (the store's protocol),
//     hello (TLS, half of it), wrong (a TLS hello by another token), replay (one by the right token, said again)
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/time.h"
#include "rendezvous/peer/tls_context.h"
#include "rendezvous/peer/token.h"
#include "rendezvous/store/protocol.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kValueBytes = 170;  // what gloo stores for each rank
constexpr std::size_t kKeys = 256;
constexpr auto kReplyTimeout = 10s;
constexpr std::size_t kConnectionsHeld = 2000;           // by unauthenticated peers that wait for nothing
constexpr std::size_t kConnectionsAtATime = 256;         // by those that are answered
constexpr in_addr_t kPeerAddress = INADDR_LOOPBACK + 1;  // another source than the load, as on another machine
constexpr const char* kToken = "00112233445566778899aabbccddeeff";  // store_main's
constexpr const char* kOtherToken = "ffeeddccbbaa99887766554433221100";

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

bool try_later(int error) { return error == EAGAIN || error == EINPROGRESS || error == EINTR; }

// Connected, or about to be.
Fd connecting(std::uint16_t port, std::optional<in_addr_t> from = {}) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) fail("socket");
  const int on = 1;
  const linger reset_at_end{1, 0};  // or thousands of ports would stay taken for a minute
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset_at_end, sizeof reset_at_end);
  if (from) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(*from);
    const int no_port_yet = 1;
    setsockopt(fd.get(), SOL_IP, IP_BIND_ADDRESS_NO_PORT, &no_port_yet, sizeof no_port_yet);
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) fail("bind");
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && !try_later(errno)) fail("connect");
  return fd;
}

class Poll {
 public:
  void add(int fd, std::uint32_t events, std::uint64_t number) {
    epoll_event event{events, {.u64 = number}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
  }
  template <class Ready>
  void wait(Duration limit, Ready ready) {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::max(limit, Duration::zero())).count();
    const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
    const int count = epoll_pwait2(epoll_.get(), events_.data(), static_cast<int>(events_.size()), &time, nullptr);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events_[static_cast<std::size_t>(i)];
      ready(event.data.u64, event.events);
    }
  }

 private:
  Fd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  std::array<epoll_event, 512> events_{};
};

// The load.

struct PendingReply {
  TimePoint at;  // the appointed time
  std::size_t missing;
};

struct Client {
  Fd fd;
  std::deque<PendingReply> pending = {};
};

class Load {
 public:
  Load(std::uint16_t port, std::size_t count);
  void run(double rate, Duration length);
  void print() const;

 private:
  void ask(std::size_t number, TimePoint at);
  void send(Client& client, const std::string& request, std::size_t reply_bytes, TimePoint at);
  void receive(Client& client);
  void receive_all();

  Poll poll_;
  std::vector<Client> clients_;
  std::array<char, 64 << 10> scratch_{};
  std::size_t waiting_ = 0;
  std::vector<double> took_us_;
};

std::string key(std::size_t number) { return "/default_pg/0//cpu//0/" + std::to_string(number % kKeys); }

const std::string& ping() {
  static const std::string bytes = encode({Op::ping, {}, {}, 7});
  return bytes;
}

std::string set(std::size_t number) {
  return encode({Op::set, {key(number)}, {std::string(kValueBytes, 'v')}}) + ping();
}

Load::Load(std::uint16_t port, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    clients_.push_back({connecting(port)});
    poll_.add(clients_[i].fd.get(), EPOLLIN, i);
    send(clients_[i], encode({Op::validate, {}, {}, kMagic}) + ping(), 4, Clock::now());
    receive_all();
  }
  for (std::size_t i = 0; i < kKeys; ++i) {
    send(clients_[0], set(i), 4, Clock::now());
    receive_all();
  }
  took_us_.clear();
}

void Load::send(Client& client, const std::string& request, std::size_t reply_bytes, TimePoint at) {
  while (::send(client.fd.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    if (!try_later(errno)) fail("send");
  client.pending.push_back({at, reply_bytes});
  ++waiting_;
}

void Load::ask(std::size_t number, TimePoint at) {
  Client& client = clients_[number % clients_.size()];
  if (number / clients_.size() % 2 == 0)
    send(client, encode({Op::get, {key(number)}}), 8 + kValueBytes, at);
  else
    send(client, set(number), 4, at);
}

void Load::receive(Client& client) {
  ssize_t left = recv(client.fd.get(), scratch_.data(), scratch_.size(), 0);
  if (left < 0 && try_later(errno)) return;
  if (left <= 0) fail("recv");
  const TimePoint now = Clock::now();
  while (left > 0) {
    if (client.pending.empty()) throw std::runtime_error("more than was asked for");
    PendingReply& pending = client.pending.front();
    const auto part = std::min(pending.missing, static_cast<std::size_t>(left));
    pending.missing -= part;
    left -= static_cast<ssize_t>(part);
    if (pending.missing > 0) return;
    took_us_.push_back(std::chrono::duration<double, std::micro>(now - pending.at).count());
    client.pending.pop_front();
    --waiting_;
  }
}

void Load::receive_all() {
  for (const TimePoint end = Clock::now() + kReplyTimeout; waiting_ > 0;) {
    if (Clock::now() > end) throw std::runtime_error("no answer");
    poll_.wait(kReplyTimeout, [this](std::uint64_t number, std::uint32_t) { receive(clients_[number]); });
  }
}

void Load::run(double rate, Duration length) {
  const Duration pause = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1 / rate));
  const TimePoint start = Clock::now();
  std::size_t number = 0;
  for (TimePoint next = start; next < start + length;) {
    poll_.wait(next - Clock::now(), [this](std::uint64_t which, std::uint32_t) { receive(clients_[which]); });
    for (; next <= Clock::now() && next < start + length; next += pause) ask(number++, next);
  }
  receive_all();
}

void Load::print() const {
  std::vector<double> sorted = took_us_;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double part) {
    return sorted.at(static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1)));
  };
  std::printf("{\"requests\": %zu, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n", sorted.size(), at(0.5),
              at(0.99), sorted.back());
}

// The unauthenticated peers.

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
};

Attack make_attack(const std::string& how) {
  const std::string validate = encode({Op::validate, {}, {}, kMagic});
  if (how == "close") return {.closes = true};
  if (how == "half") return {.payload = validate.substr(0, 3), .connections = kConnectionsHeld};
  if (how == "plain") return {.payload = validate + ping() + encode({Op::num_keys})};
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
    std::size_t next = 0;
    while (!stop_requested) {
      for (int burst = 0; burst < 16 && next < held_.size(); ++burst) connect_one(attack_.closes ? 0 : next++);
      poll_.wait(next < held_.size() ? 0ms : 50ms,
                 [this](std::uint64_t number, std::uint32_t events) { receive(number, events); });
    }
    std::printf("%.0f\n", static_cast<double>(count_) / std::chrono::duration<double>(Clock::now() - start).count());
  }

 private:
  void connect_one(std::size_t number) {
    held_[number] = connecting(port_, kPeerAddress);
    ++count_;
    if (attack_.closes) return;
    poll_.add(held_[number].get(), EPOLLIN | EPOLLOUT | EPOLLET, number);
  }
  void receive(std::size_t number, std::uint32_t events) {
    const int fd = held_[number].get();
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) return connect_one(number);  // answered, or closed
    if (!attack_.payload.empty()) send(fd, attack_.payload.data(), attack_.payload.size(), MSG_NOSIGNAL);
  }

  const Attack attack_;
  const std::uint16_t port_;
  Poll poll_;
  std::vector<Fd> held_;
  long count_ = 0;
};

bool take_real_time_priority() {
  const sched_param low{.sched_priority = 1};
  return sched_setscheduler(0, SCHED_FIFO, &low) == 0;
}

void raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::uint16_t port_of(const std::string& word) { return static_cast<std::uint16_t>(std::stoul(word)); }

void measure(const std::vector<std::string>& words) {
  if (!take_real_time_priority())
    std::fputs("attack_load: no real-time priority here: others delay the load\n", stderr);
  Load load(port_of(words[4]), std::stoul(words[1]));
  load.run(std::stod(words[2]),
           std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::stod(words[3]))));
  load.print();
}

void attack(const std::vector<std::string>& words) {
  struct sigaction end {};
  end.sa_handler = [](int) { stop_requested = 1; };
  sigaction(SIGTERM, &end, nullptr);
  UnauthenticatedPeers(make_attack(words[1]), port_of(words[2])).run();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  raise_descriptor_limit();
  if (words.size() == 5 && words[0] == "measure") return measure(words), 0;
  if (words.size() == 3 && words[0] == "attack") return attack(words), 0;
  std::fputs("usage: attack_load measure CONNECTIONS RATE SECONDS PORT\n       attack_load attack HOW PORT\n", stderr);
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "attack_load: %s\n", error.what());
  return 1;
}
