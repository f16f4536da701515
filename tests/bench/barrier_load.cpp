// Has many simulated ranks pass a barrier, over and over, and says in JSON what it took:
//   barrier_load barrier|add_wait RANKS TURNS SERVER_PID PORT [PORT]...
//     [{seconds, store_cpu_seconds} of each turn]
//
// One thread, a connection for each rank, the ranks spread evenly over the ports: one of the store itself, or those of
// store proxies. `barrier` is the store's own operation; `add_wait` is PyTorch's _store_based_barrier: each adds one,
// the last one sets a key, all wait for it. A turn lasts from the first rank's request to the last one's answer. The
// store's processor time is that of its thread, "ddprun-store", in that process.
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
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

constexpr int kReplyTimeoutMs = 20'000;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class Ranks {
 public:
  // Called with a rank and its answer; the rank may ask again.
  using OnAnswer = std::function<void(std::size_t rank, const std::string& bytes)>;

  Ranks(std::size_t count, const std::vector<std::uint16_t>& ports);
  std::size_t size() const { return ranks_.size(); }
  void ask(std::size_t rank, const std::string& request, std::size_t reply_bytes);
  void receive_all(const OnAnswer& on_answer);

 private:
  struct Rank {
    int fd = -1;
    std::size_t missing = 0;
    std::string reply;
  };
  void receive(std::size_t rank, const OnAnswer& on_answer);

  const int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  std::vector<Rank> ranks_;
  std::size_t unanswered_ = 0;
};

Ranks::Ranks(std::size_t count, const std::vector<std::uint16_t>& ports) {
  for (std::size_t i = 0; i < count; ++i) {
    ranks_.push_back({connected(ports[i % ports.size()]), 0, {}});
    epoll_event event{EPOLLIN, {.u64 = i}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, ranks_[i].fd, &event) != 0) fail("epoll_ctl");
    ask(i, encode({Op::validate, {}, {}, kMagic}) + encode({Op::ping, {}, {}, 7}), 4);
    if (i % 256 == 255) receive_all([](std::size_t, const std::string&) {});
  }
  receive_all([](std::size_t, const std::string&) {});
}

void Ranks::ask(std::size_t rank, const std::string& request, std::size_t reply_bytes) {
  Rank& requester = ranks_[rank];
  requester.missing = reply_bytes;
  requester.reply.clear();
  unanswered_ += reply_bytes > 0;
  if (send(requester.fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
    fail("send");
}

void Ranks::receive_all(const OnAnswer& on_answer) {
  std::array<epoll_event, 1024> events;
  while (unanswered_ > 0) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), kReplyTimeoutMs);
    if (count == 0) throw std::runtime_error("no answer");
    for (int i = 0; i < count; ++i) receive(events[static_cast<std::size_t>(i)].data.u64, on_answer);
  }
}

void Ranks::receive(std::size_t rank, const OnAnswer& on_answer) {
  Rank& receiver = ranks_[rank];
  std::array<char, 64> bytes;
  const ssize_t n = recv(receiver.fd, bytes.data(), bytes.size(), 0);
  if (n <= 0) fail("recv");
  if (static_cast<std::size_t>(n) > receiver.missing) throw std::runtime_error("more than was asked for");
  receiver.reply.append(bytes.data(), static_cast<std::size_t>(n));
  receiver.missing -= static_cast<std::size_t>(n);
  if (receiver.missing > 0) return;
  --unanswered_;
  on_answer(rank, receiver.reply);
}

void barrier(Ranks& ranks, const std::string& key) {
  const std::string request = encode({Op::barrier, {key}, {}, static_cast<std::int64_t>(ranks.size())});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks.ask(rank, request, 1);
  ranks.receive_all([](std::size_t, const std::string&) {});
}

void add_wait(Ranks& ranks, const std::string& key) {
  const std::string add = encode({Op::add, {key}, {}, 1}), wait = encode({Op::wait, {key + "/last"}}),
                    go = encode({Op::set, {key + "/last"}, {"1"}});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks.ask(rank, add, 8);
  ranks.receive_all([&](std::size_t rank, const std::string& bytes) {
    if (bytes.size() != 8) return;  // it has waited
    std::uint64_t sum = 0;
    std::memcpy(&sum, bytes.data(), sizeof sum);
    ranks.ask(rank, sum == ranks.size() ? go + wait : wait, 1);
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

void raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 5 || (words[0] != "barrier" && words[0] != "add_wait")) {
    std::fputs("usage: barrier_load barrier|add_wait RANKS TURNS SERVER_PID PORT [PORT]...\n", stderr);
    return 2;
  }
  raise_descriptor_limit();
  std::vector<std::uint16_t> ports;
  for (std::size_t i = 4; i < words.size(); ++i) ports.push_back(static_cast<std::uint16_t>(std::stoul(words[i])));
  Ranks ranks(std::stoul(words[1]), ports);
  const auto pass = words[0] == "barrier" ? barrier : add_wait;
  const int turns = std::stoi(words[2]);
  std::string samples;
  for (int turn = -1; turn < turns; ++turn) {  // the first one warms up
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
} catch (const std::exception& error) {
  std::fprintf(stderr, "barrier_load: %s\n", error.what());
  return 1;
}
