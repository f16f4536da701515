// Loads TCPStore servers, ours or PyTorch's, in turns, and says in JSON what the load cost each:
//   store_load get|set|add|wait|multi_get CONNECTIONS SECONDS TURNS PORT SERVER_PID [PORT SERVER_PID]...
//     [[{requests, seconds, cpu_seconds, p50_us, p99_us} of each turn] of each server]
//   store_load hold CONNECTIONS PORT SERVER_PID
//     opens them, asks something on each: the bytes of the server's resident memory that each holds
//
// One thread. Every connection is a client that asks again as soon as it is answered, but for `wait`: there all wait
// for one key, which the last one sets when all have asked and deletes when all were told. A SET has no reply: the PING
// sent with it says when it is done, and both are counted. The server's processor time is its process's own clock.
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "rendezvous/store/protocol.h"
#include "tests/bench/loopback.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace ddprun::bench;

namespace {

constexpr int kKeys = 256;
constexpr std::size_t kValueBytes = 170;  // what gloo stores for each rank
constexpr int kKeysPerMultiGet = 16;
constexpr double kWarmUpSeconds = 0.03;
constexpr int kReplyTimeoutMs = 10'000;

double seconds_of(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) fail("the server's processor time");
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double now() { return seconds_of(CLOCK_MONOTONIC); }

std::string key(int number) { return "/default_pg/0//cpu//0/" + std::to_string(number % kKeys); }

// A request and how many bytes answer it.
struct Exchange {
  std::string request;
  std::size_t reply_bytes = 0;
  int requests = 1;
};

Exchange get(int client) { return {encode({Op::get, {key(client)}}), 8 + kValueBytes}; }

Exchange ping() { return {encode({Op::ping, {}, {}, 7}), 4}; }

Exchange set(int client) {
  return {encode({Op::set, {key(client)}, {std::string(kValueBytes, 'v')}}) + ping().request, 4, 2};
}

Exchange add(int client) { return {encode({Op::add, {"/count/" + std::to_string(client)}, {}, 1}), 8}; }

Exchange multi_get(int client) {
  Request request{Op::multi_get};
  for (int i = 0; i < kKeysPerMultiGet; ++i) request.keys.push_back(key(client + i));
  return {encode(request), kKeysPerMultiGet * (8 + kValueBytes)};
}

struct Client {
  int fd = -1;
  std::size_t missing = 0;  // of the reply
  double sent_at = 0;
};

class Clients {
 public:
  Clients(std::uint16_t port, std::size_t count);
  ~Clients();
  std::size_t size() const { return clients_.size(); }
  void ask(std::size_t client, const Exchange& exchange);
  // The clients whose reply is whole, after a wait for at least some bytes.
  const std::vector<std::size_t>& answered();
  double took(std::size_t client) const { return now() - clients_[client].sent_at; }

 private:
  void receive(std::size_t client);

  int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  std::vector<Client> clients_;
  std::vector<std::size_t> answered_;
  std::array<epoll_event, 1024> events_{};
  std::array<char, 64 << 10> scratch_{};
};

Clients::Clients(std::uint16_t port, std::size_t count) {
  const Exchange hello{encode({Op::validate, {}, {}, kMagic}) + ping().request, ping().reply_bytes};
  for (std::size_t i = 0; i < count; ++i) {
    clients_.push_back({connected(port)});
    epoll_event event{EPOLLIN, {.u64 = i}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, clients_[i].fd, &event) != 0) fail("epoll_ctl");
    ask(i, hello);
    while (answered().empty()) continue;
  }
}

Clients::~Clients() {
  for (const Client& client : clients_) close(client.fd);
  close(epoll_);
}

void Clients::ask(std::size_t client, const Exchange& exchange) {
  Client& requester = clients_[client];
  requester.sent_at = now();
  requester.missing = exchange.reply_bytes;
  const std::string& request = exchange.request;
  if (send(requester.fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    fail("send");
}

const std::vector<std::size_t>& Clients::answered() {
  answered_.clear();
  const int count = epoll_wait(epoll_, events_.data(), static_cast<int>(events_.size()), kReplyTimeoutMs);
  if (count == 0) throw std::runtime_error("no answer");
  for (int i = 0; i < count; ++i) receive(events_[static_cast<std::size_t>(i)].data.u64);
  return answered_;
}

void Clients::receive(std::size_t client) {
  Client& receiver = clients_[client];
  const ssize_t n = recv(receiver.fd, scratch_.data(), scratch_.size(), 0);
  if (n <= 0) fail("recv");
  if (static_cast<std::size_t>(n) > receiver.missing) throw std::runtime_error("more than was asked for");
  receiver.missing -= static_cast<std::size_t>(n);
  if (receiver.missing == 0) answered_.push_back(client);
}

// What happened between warm-up and end.
class Window {
 public:
  Window(pid_t server, double seconds) : begin_(now() + kWarmUpSeconds), end_(begin_ + seconds) {
    if (clock_getcpuclockid(server, &cpu_clock_) != 0) fail("clock_getcpuclockid");
  }
  // To be asked once a turn; false: the time is over.
  bool is_open() {
    const double time = now();
    if (!begun_ && time >= begin_) {
      begun_ = true;
      begin_ = time;
      cpu_ = seconds_of(cpu_clock_);
    }
    if (time < end_ || latencies_.empty()) return true;  // a busy machine may leave a turn nothing
    cpu_ = seconds_of(cpu_clock_) - cpu_;
    end_ = time;
    return false;
  }
  void count(int requests) { requests_ += begun_ ? requests : 0; }
  void took(double seconds) {
    if (begun_) latencies_.push_back(seconds);
  }
  std::string json() {
    char text[200];
    std::snprintf(text, sizeof text,
                  "{\"requests\": %ld, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f}",
                  requests_, end_ - begin_, cpu_, quantile(0.5) * 1e6, quantile(0.99) * 1e6);
    return text;
  }

 private:
  double quantile(double part) {
    if (latencies_.empty()) throw std::runtime_error("nothing was answered");
    const auto at = latencies_.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(latencies_.size() - 1));
    std::nth_element(latencies_.begin(), at, latencies_.end());
    return *at;
  }

  clockid_t cpu_clock_{};
  double begin_, end_;
  bool begun_ = false;
  double cpu_ = 0;
  long requests_ = 0;
  std::vector<double> latencies_;
};

void fill(Clients& clients) {
  for (int i = 0; i < kKeys; ++i) {
    clients.ask(0, set(i));
    while (clients.answered().empty()) continue;
  }
}

void await(Clients& clients, std::size_t count, const std::function<void(std::size_t)>& answered) {
  while (count > 0)
    for (const std::size_t client : clients.answered()) {
      answered(client);
      --count;
    }
}

void request_repeatedly(Clients& clients, Window& window, Exchange (*exchange_of)(int)) {
  std::vector<Exchange> exchanges;
  for (std::size_t i = 0; i < clients.size(); ++i) exchanges.push_back(exchange_of(static_cast<int>(i)));
  for (std::size_t i = 0; i < clients.size(); ++i) clients.ask(i, exchanges[i]);
  while (window.is_open()) {
    const auto& answered = clients.answered();
    for (const std::size_t client : answered) {
      window.took(clients.took(client));
      window.count(exchanges[client].requests);
    }
    for (const std::size_t client : answered) clients.ask(client, exchanges[client]);
  }
  await(clients, clients.size(), [](std::size_t) {});
}

void wait_and_set(Clients& clients, Window& window) {
  const std::size_t setter = clients.size() - 1;
  const Exchange wait{encode({Op::wait, {"/go"}}), 1}, go{encode({Op::set, {"/go"}, {"1"}}), 0},
      clear{encode({Op::delete_key, {"/go"}}), 8};
  while (window.is_open()) {
    for (std::size_t i = 0; i < setter; ++i) clients.ask(i, wait);
    clients.ask(setter, go);
    const double set_at = now();
    await(clients, setter, [&](std::size_t) { window.took(now() - set_at); });
    clients.ask(setter, clear);
    await(clients, 1, [](std::size_t) {});
    window.count(static_cast<int>(clients.size()) + 1);
  }
}

long resident_bytes(const std::string& pid) {
  std::ifstream in("/proc/" + pid + "/statm");
  long all = 0, resident = 0;
  if (!(in >> all >> resident)) throw std::runtime_error("no process " + pid);
  return resident * sysconf(_SC_PAGESIZE);
}

void hold(std::size_t count, std::uint16_t port, const std::string& pid) {
  { Clients first(port, 100); }  // what a server allocates once is not the connections'
  const long before = resident_bytes(pid);
  Clients clients(port, count);
  const long after = resident_bytes(pid);
  for (std::size_t i = 0; i < count; ++i) clients.ask(i, add(0));
  await(clients, count, [](std::size_t) {});
  std::printf("%.0f\n", static_cast<double>(after - before) / static_cast<double>(count));
}

void raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// What every client asks; `wait` is not that simple.
const std::map<std::string, Exchange (*)(int)> kLoads = {
    {"get", get}, {"set", set}, {"add", add}, {"multi_get", multi_get}, {"wait", nullptr}};

struct ServerUnderLoad {
  pid_t server = 0;
  std::unique_ptr<Clients> clients;
  std::string samples = {};
};

void load(const std::string& how, double seconds, int turns, std::vector<ServerUnderLoad>& sides) {
  const auto exchange_of = kLoads.at(how);
  for (int turn = 0; turn < turns; ++turn)
    for (ServerUnderLoad& side : sides) {
      Window window(side.server, seconds);
      if (exchange_of)
        request_repeatedly(*side.clients, window, exchange_of);
      else
        wait_and_set(*side.clients, window);
      side.samples += (turn > 0 ? ", " : "") + window.json();
    }
  std::string all;
  for (const ServerUnderLoad& side : sides) all += (all.empty() ? "[" : ", [") + side.samples + "]";
  std::printf("[%s]\n", all.c_str());
}

std::uint16_t port_of(const std::string& word) { return static_cast<std::uint16_t>(std::stoul(word)); }

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool holds = words.size() == 4 && words[0] == "hold";
  if (!holds && (words.size() < 6 || words.size() % 2 != 0 || !kLoads.contains(words[0]))) {
    std::fputs(
        "usage: store_load get|set|add|wait|multi_get CONNECTIONS SECONDS TURNS PORT SERVER_PID [...]\n"
        "       store_load hold CONNECTIONS PORT SERVER_PID\n",
        stderr);
    return 2;
  }
  raise_descriptor_limit();
  const std::size_t count = std::stoul(words[1]);
  if (holds) {
    hold(count, port_of(words[2]), words[3]);
    return 0;
  }
  std::vector<ServerUnderLoad> sides;
  for (std::size_t i = 4; i < words.size(); i += 2) {
    sides.push_back({std::stoi(words[i + 1]), std::make_unique<Clients>(port_of(words[i]), count)});
    fill(*sides.back().clients);
  }
  load(words[0], std::stod(words[2]), std::stoi(words[3]), sides);
} catch (const std::exception& error) {
  std::fprintf(stderr, "store_load: %s\n", error.what());
  return 1;
}
