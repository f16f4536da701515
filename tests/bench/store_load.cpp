// Loads TCPStore servers, ours or PyTorch's, and says in JSON what the load cost:
//   store_load get|set|add|wait|multi_get CONNECTIONS SECONDS TURNS PORT SERVER_PID [PORT SERVER_PID]...
//     [[{requests, cpu_seconds, p99_us} of each turn] of each server], which take turns
//   store_load hold CONNECTIONS PORT SERVER_PID
//     opens them, asks something on each: the bytes of the server's resident memory that each holds
//   store_load barrier|add_wait RANKS TURNS SERVER_PID PORT [PORT]...
//     [{seconds, store_cpu_seconds} of each turn] in which all ranks pass a barrier
//   store_load measure CONNECTIONS RATE SECONDS PORT
//     the p99 in microseconds of gets and sets in turns, RATE a second in all
//
// One thread. Every connection is a client that asks again as soon as it is answered, but for `wait`: there all wait
// for one key, which the last one sets when all have asked and deletes when all were told. A SET has no reply: the PING
// sent with it says when it is done, and both are counted. The server's processor time is its process's own clock.
//
// The ranks of a barrier are spread evenly over the ports: one of the store itself, or those of store proxies.
// `barrier` is the store's own operation; `add_wait` is PyTorch's _store_based_barrier: each adds one, the last one
// sets a key, all wait for it. A turn lasts from the first rank's request to the last one's answer. The store's
// processor time is that of its thread, "ddprun-store", in that process.
//
// `measure` times each request from its appointed time to its answer, whether or not earlier ones are answered (an open
// loop: who slows us down does not thin the load). It takes real-time priority where that may be had, so that whoever
// shares the processor delays the store, not the clock.
//
// The limit of descriptors is its parent's to raise.
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/fd.h"
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
constexpr double kReplyTimeoutSeconds = 20;
constexpr std::size_t kConnectionsAtATime = 64;

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

struct Answer {
  std::size_t client;
  double seconds;  // since it was asked for
  std::string bytes;
};

class Clients {
 public:
  using OnAnswer = std::function<void(const Answer&)>;

  // Spread evenly over the ports.
  Clients(const std::vector<std::uint16_t>& ports, std::size_t count);
  std::size_t size() const { return clients_.size(); }
  void ask(std::size_t client, const Exchange& exchange, double at = now());
  // What came within so many seconds.
  const std::vector<Answer>& poll(double seconds);
  // At least some.
  const std::vector<Answer>& answers();
  // Until nothing is missing. Whoever is answered may ask again.
  void finish(const OnAnswer& on_answer = [](const Answer&) {});

 private:
  struct Pending {
    double at;
    std::size_t reply_bytes;
    std::string reply = {};
  };
  struct Client {
    Fd fd{tcp_socket()};
    std::deque<Pending> pending = {};
  };
  void receive(std::size_t client);

  const Fd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  std::vector<Client> clients_;
  std::size_t pending_ = 0;
  std::vector<Answer> answers_;
  std::array<epoll_event, 1024> events_{};
  std::array<char, 64 << 10> scratch_{};
};

Clients::Clients(const std::vector<std::uint16_t>& ports, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const int fd = clients_.emplace_back().fd.get();
    if (!connect_to(fd, ports[i % ports.size()])) fail("connect");
    epoll_event event{EPOLLIN, {.u64 = i}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
    ask(i, {encode({Op::validate, {}, {}, kMagic}) + ping().request, ping().reply_bytes});
    if (i % kConnectionsAtATime == 0) finish();
  }
  finish();
}

void Clients::ask(std::size_t client, const Exchange& exchange, double at) {
  if (exchange.reply_bytes > 0) {
    clients_[client].pending.push_back({at, exchange.reply_bytes});
    ++pending_;
  }
  const std::string& request = exchange.request;
  const ssize_t sent = send(clients_[client].fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(request.size())) fail("send");
}

const std::vector<Answer>& Clients::poll(double seconds) {
  answers_.clear();
  const auto ns = static_cast<long>(std::max(seconds, 0.0) * 1e9);
  const timespec limit{ns / 1'000'000'000, ns % 1'000'000'000};
  const int count = epoll_pwait2(epoll_.get(), events_.data(), static_cast<int>(events_.size()), &limit, nullptr);
  for (int i = 0; i < count; ++i) receive(events_[static_cast<std::size_t>(i)].data.u64);
  return answers_;
}

const std::vector<Answer>& Clients::answers() {
  for (const double end = now() + kReplyTimeoutSeconds; poll(end - now()).empty();)
    if (now() > end) throw std::runtime_error("no answer");
  return answers_;
}

void Clients::finish(const OnAnswer& on_answer) {
  while (pending_ > 0)
    for (const Answer& answer : answers()) on_answer(answer);
}

void Clients::receive(std::size_t client) {
  std::deque<Pending>& pending = clients_[client].pending;
  const ssize_t n = recv(clients_[client].fd.get(), scratch_.data(), scratch_.size(), 0);
  if (n <= 0) fail("recv");
  for (std::string_view bytes(scratch_.data(), static_cast<std::size_t>(n)); !bytes.empty();) {
    if (pending.empty()) throw std::runtime_error("more than was asked for");
    auto& [at, reply_bytes, reply] = pending.front();
    const std::string_view part = bytes.substr(0, reply_bytes - reply.size());
    reply += part;
    bytes.remove_prefix(part.size());
    if (reply.size() < reply_bytes) return;
    answers_.push_back({client, now() - at, std::move(reply)});
    pending.pop_front();
    --pending_;
  }
}

double p99(std::vector<double>& seconds) {
  if (seconds.empty()) throw std::runtime_error("nothing was answered");
  const auto at = seconds.begin() + static_cast<std::ptrdiff_t>(0.99 * static_cast<double>(seconds.size() - 1));
  std::nth_element(seconds.begin(), at, seconds.end());
  return *at;
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
      cpu_ = seconds_of(cpu_clock_);
    }
    if (time < end_ || latencies_.empty()) return true;  // a busy machine may leave a turn nothing
    cpu_ = seconds_of(cpu_clock_) - cpu_;
    return false;
  }
  void count(int requests) { requests_ += begun_ ? requests : 0; }
  void took(double seconds) {
    if (begun_) latencies_.push_back(seconds);
  }
  std::string json() {
    char text[100];
    std::snprintf(text, sizeof text, "{\"requests\": %ld, \"cpu_seconds\": %.6f, \"p99_us\": %.1f}", requests_, cpu_,
                  p99(latencies_) * 1e6);
    return text;
  }

 private:
  clockid_t cpu_clock_{};
  const double begin_, end_;
  bool begun_ = false;
  double cpu_ = 0;
  long requests_ = 0;
  std::vector<double> latencies_;
};

void fill(Clients& clients) {
  for (int i = 0; i < kKeys; ++i) {
    clients.ask(0, set(i));
    clients.finish();
  }
}

void request_repeatedly(Clients& clients, Window& window, Exchange (*exchange_of)(int)) {
  std::vector<Exchange> exchanges;
  for (std::size_t i = 0; i < clients.size(); ++i) exchanges.push_back(exchange_of(static_cast<int>(i)));
  for (std::size_t i = 0; i < clients.size(); ++i) clients.ask(i, exchanges[i]);
  while (window.is_open()) {
    const auto& answers = clients.answers();
    for (const Answer& answer : answers) {
      window.took(answer.seconds);
      window.count(exchanges[answer.client].requests);
    }
    for (const Answer& answer : answers) clients.ask(answer.client, exchanges[answer.client]);
  }
  clients.finish();
}

void wait_and_set(Clients& clients, Window& window) {
  const std::size_t setter = clients.size() - 1;
  const Exchange wait{encode({Op::wait, {"/go"}}), 1}, go{encode({Op::set, {"/go"}, {"1"}}), 0},
      clear{encode({Op::delete_key, {"/go"}}), 8};
  while (window.is_open()) {
    for (std::size_t i = 0; i < setter; ++i) clients.ask(i, wait);
    clients.ask(setter, go);
    const double set_at = now();
    clients.finish([&](const Answer&) { window.took(now() - set_at); });
    clients.ask(setter, clear);
    clients.finish();
    window.count(static_cast<int>(clients.size()) + 1);
  }
}

long resident_bytes(const std::string& pid) {
  std::ifstream in("/proc/" + pid + "/statm");
  long all = 0, resident = 0;
  if (!(in >> all >> resident)) throw std::runtime_error("no process " + pid);
  return resident * sysconf(_SC_PAGESIZE);
}

using Words = std::vector<std::string>;

void hold(const Words& words) {
  const std::size_t count = std::stoul(words[1]);
  const std::vector<std::uint16_t> port{port_of(words[2])};
  { Clients first(port, 100); }  // what a server allocates once is not the connections'
  const long before = resident_bytes(words[3]);
  Clients clients(port, count);
  const long after = resident_bytes(words[3]);
  for (std::size_t i = 0; i < count; ++i) clients.ask(i, add(0));
  clients.finish();
  std::printf("%.0f\n", static_cast<double>(after - before) / static_cast<double>(count));
}

// What every client asks; `wait` is not that simple.
const std::map<std::string, Exchange (*)(int)> kLoads = {
    {"get", get}, {"set", set}, {"add", add}, {"multi_get", multi_get}, {"wait", nullptr}};

struct ServerUnderLoad {
  pid_t server = 0;
  std::unique_ptr<Clients> clients;
  std::string samples = {};
};

void load(const Words& words) {
  const auto exchange_of = kLoads.at(words[0]);
  std::vector<ServerUnderLoad> sides;
  for (std::size_t i = 4; i < words.size(); i += 2) {
    const std::vector<std::uint16_t> port{port_of(words[i])};
    sides.push_back({std::stoi(words[i + 1]), std::make_unique<Clients>(port, std::stoul(words[1]))});
    fill(*sides.back().clients);
  }
  for (int turn = 0; turn < std::stoi(words[3]); ++turn)
    for (ServerUnderLoad& side : sides) {
      Window window(side.server, std::stod(words[2]));
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

void pass_barrier(Clients& ranks, const std::string& key) {
  const Exchange barrier{encode({Op::barrier, {key}, {}, static_cast<std::int64_t>(ranks.size())}), 1};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks.ask(rank, barrier);
  ranks.finish();
}

void add_and_wait(Clients& ranks, const std::string& key) {
  const Exchange add{encode({Op::add, {key}, {}, 1}), 8}, wait{encode({Op::wait, {key + "/last"}}), 1},
      go{encode({Op::set, {key + "/last"}, {"1"}})};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks.ask(rank, add);
  ranks.finish([&](const Answer& answer) {
    if (answer.bytes.size() != 8) return;  // it has waited
    std::uint64_t sum = 0;
    std::memcpy(&sum, answer.bytes.data(), sizeof sum);
    ranks.ask(answer.client, sum == ranks.size() ? Exchange{go.request + wait.request, 1} : wait);
  });
}

// Of the store's thread, in nanoseconds.
double store_cpu_seconds(const std::string& pid) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + pid + "/task")) {
    std::ifstream comm(task.path() / "comm"), schedule(task.path() / "schedstat");
    std::string name;
    double nanoseconds = 0;
    if (std::getline(comm, name) && name == "ddprun-store" && schedule >> nanoseconds) return nanoseconds / 1e9;
  }
  throw std::runtime_error("no store in process " + pid);
}

void pass_barriers(const Words& words) {
  std::vector<std::uint16_t> ports;
  for (std::size_t i = 4; i < words.size(); ++i) ports.push_back(port_of(words[i]));
  Clients ranks(ports, std::stoul(words[1]));
  const auto pass = words[0] == "barrier" ? pass_barrier : add_and_wait;
  std::string samples;
  for (int turn = -1; turn < std::stoi(words[2]); ++turn) {  // the first one warms up
    const double cpu = store_cpu_seconds(words[3]), start = now();
    pass(ranks, "/barrier/" + std::to_string(getpid()) + "/" + std::to_string(turn));
    const double took = now() - start;
    if (turn < 0) continue;
    char text[100];
    std::snprintf(text, sizeof text, "%s{\"seconds\": %.6f, \"store_cpu_seconds\": %.6f}", turn > 0 ? ", " : "", took,
                  store_cpu_seconds(words[3]) - cpu);
    samples += text;
  }
  std::printf("[%s]\n", samples.c_str());
}

void measure(const Words& words) {
  const sched_param low{.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_FIFO, &low) != 0)
    std::fputs("store_load: no real-time priority here: others delay the load\n", stderr);
  Clients clients({port_of(words[4])}, std::stoul(words[1]));
  fill(clients);
  std::vector<double> took;
  const double pause = 1 / std::stod(words[2]), start = now(), end = start + std::stod(words[3]);
  std::size_t number = 0;
  for (double next = start; next < end;) {
    for (const Answer& answer : clients.poll(next - now())) took.push_back(answer.seconds);
    for (; next <= now() && next < end; next += pause, ++number) {
      const auto exchange_of = number / clients.size() % 2 == 0 ? get : set;
      clients.ask(number % clients.size(), exchange_of(static_cast<int>(number)), next);
    }
  }
  clients.finish([&](const Answer& answer) { took.push_back(answer.seconds); });
  std::printf("%.1f\n", p99(took) * 1e6);
}

}  // namespace

int main(int argc, char** argv) try {
  const Words words(argv + 1, argv + argc);
  const std::string how = words.empty() ? "" : words[0];
  if (how == "hold" && words.size() == 4) return hold(words), 0;
  if ((how == "barrier" || how == "add_wait") && words.size() >= 5) return pass_barriers(words), 0;
  if (how == "measure" && words.size() == 5) return measure(words), 0;
  if (kLoads.contains(how) && words.size() >= 6 && words.size() % 2 == 0) return load(words), 0;
  std::fputs(
      "usage: store_load get|set|add|wait|multi_get CONNECTIONS SECONDS TURNS PORT SERVER_PID [...]\n"
      "       store_load hold CONNECTIONS PORT SERVER_PID\n"
      "       store_load barrier|add_wait RANKS TURNS SERVER_PID PORT [PORT]...\n"
      "       store_load measure CONNECTIONS RATE SECONDS PORT\n",
      stderr);
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "store_load: %s\n", error.what());
  return 1;
}
