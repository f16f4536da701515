// Has many simulated agents form a world, survive a worker's failure and the loss of their coordinator, and says in
// JSON how long each took:
//   world_load elastic|static AGENTS plain|token [failover]
//     {"form": {...}, "failure": {...}, "failover": {...}}     (null: not asked for, or not within the limit)
//
// Each agent is the real one's way to its coordinator (agent/link/coordination.h): its control port with a thread of
// its own, its connection, its part in an election, over real sockets. What it lacks are workers: they start and stop
// at once. One process holds the coordinator's agent, one the agent that is elected when that one is killed, one the
// other standbys of the round's record, the rest up to a thousand agents each. The first three run on the last core, as
// a thousand agents on one core would keep a node waiting that has a core of its own; all others on the first one.
//
// Every connection has a source address of its own within 127.0.0.0/8, as the agents of as many machines have; else the
// share of unauthenticated peers that one machine may have would be measured. The limit of descriptors is its parent's
// to raise.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <asio/posix/stream_descriptor.hpp>
#include <nlohmann/json.hpp>

#include "agent/link/coordination.h"
#include "rendezvous/base/overloaded.h"
#include "tests/bench/loopback.h"
#include "tests/support/free_port.h"

using namespace ddprun;
using namespace ddprun::agent;
using bench::fail;
using nlohmann::json;
using namespace ddprun::rendezvous;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kAgentsPerProcess = 1000;
// So many of a process at a time, as one core answers for all of them: with all at once, each would be as slow as all.
constexpr std::size_t kConcurrentJoins = 64;
constexpr std::size_t kTrackedRounds = 64;
constexpr std::chrono::seconds kStageLimit{30};
constexpr const char* kToken = "00112233445566778899aabbccddeeff";

std::int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

// What is counted while the worlds form: of the agents, not of the coordinator.
constexpr std::array kTypes{"hello",     "ready",  "confirmed", "running", "heartbeat",    "welcome", "seat", "start",
                            "end-round", "record", "back",      "call",    "vote-request", "vote",    "other"};
struct Traffic {
  std::array<std::atomic<std::int64_t>, kTypes.size()> messages, bytes;
};

// How many have come so far, and when the last one did.
struct Tally {
  std::atomic<int> count;
  std::atomic<std::int64_t> last;

  void add() {
    last = now_ns();
    ++count;
  }
};

// Of all processes.
struct Shared {
  std::atomic<int> ready, troubles, isolated, ended;
  std::atomic<std::int64_t> failed_at;
  Tally connected;
  std::array<Tally, kTrackedRounds> started, stopped;
  std::array<std::atomic<int>, kTrackedRounds> size;
  Traffic sent, received;
};

Shared* shared = nullptr;
bool counting = false;         // this process's messages
unsigned own_network = 0;      // 127.own_network.0.0
std::atomic<unsigned> source;  // within it

void count(Traffic& traffic, std::string_view message) {
  if (!counting) return;
  constexpr std::string_view kKey = "\"type\":\"";
  const std::size_t at = message.rfind(kKey);
  std::size_t type = 0;
  while (type + 1 < kTypes.size() && (at == std::string_view::npos ||
                                      !message.substr(at + kKey.size()).starts_with(std::string(kTypes[type]) + '"')))
    ++type;
  ++traffic.messages[type];
  traffic.bytes[type] += static_cast<std::int64_t>(message.size()) + 4;  // the frame's length
}

}  // namespace

// Stand before the functions of these names (see CMakeLists.txt).
namespace ddprun {
std::string real_framed(std::string_view message) asm(
    "__real__ZN6ddprun10rendezvous6framedB5cxx11ESt17basic_string_viewIcSt11char_traitsIcEE");
std::string wrap_framed(std::string_view message) asm(
    "__wrap__ZN6ddprun10rendezvous6framedB5cxx11ESt17basic_string_viewIcSt11char_traitsIcEE");
rendezvous::ToAgent real_decode(std::string_view bytes) asm(
    "__real__ZN6ddprun10rendezvous15decode_to_agentESt17basic_string_viewIcSt11char_traitsIcEE");
rendezvous::ToAgent wrap_decode(std::string_view bytes) asm(
    "__wrap__ZN6ddprun10rendezvous15decode_to_agentESt17basic_string_viewIcSt11char_traitsIcEE");

std::string wrap_framed(std::string_view message) {
  count(shared->sent, message);
  return real_framed(message);
}
rendezvous::ToAgent wrap_decode(std::string_view bytes) {
  count(shared->received, bytes);
  return real_decode(bytes);
}
}  // namespace ddprun

extern "C" int connect(int fd, const sockaddr* to, socklen_t size) {
  if (to->sa_family == AF_INET && own_network > 0)
    bench::bind_to(fd, 127u << 24 | own_network << 16 | (++source % 0xfffe + 1));
  return static_cast<int>(syscall(SYS_connect, fd, to, size));
}

namespace {

struct Plan {
  bool fixed_ranks = false, token = false;
  std::size_t agents = 0;
  std::uint16_t port = 0;

  RoundPolicy policy() const {
    const int all = static_cast<int>(agents);
    return {.nodes_min = fixed_ranks ? all : all / 2 + 1, .nodes_max = all, .fixed_ranks = fixed_ranks};
  }
};

// An agent whose workers start and stop at once.
class Node {
 public:
  Node(asio::io_context& io, const Plan& plan, std::size_t index) : name_("node-" + std::to_string(10'000 + index)) {
    Meeting meeting{.places = {{"127.0.0.1", plan.port}},
                    .run_id = "world",
                    .name = name_,
                    .fingerprint = {kControlProtocol, "1.0", std::to_string(plan.agents), "train"}};
    meeting.whose = {index == 0 ? Locality::local : Locality::remote};
    if (plan.token) meeting.credentials = std::get<Token>(Token::parse(kToken));
    if (plan.fixed_ranks || index < kStandbys) requested_rank_ = static_cast<int>(index);
    coordination_ =
        make_remote_coordination(io, plan.policy(), meeting,
                                 {[this] { connected(); }, [this](const ToAgent& message) { on_message(message); },
                                  [this] { ++shared->isolated, running_.reset(); },
                                  [](const std::string&, bool, TimePoint) { ++shared->troubles; },
                                  [](const std::string&, bool) { ++shared->ended; }, [](const std::string&) {}});
  }

  void start(std::function<void()> on_joined) {
    on_joined_ = std::move(on_joined);
    coordination_->start();
  }
  void lose_worker() {
    shared->failed_at = now_ns();
    coordination_->send(WorkerFailed{{.round = *running_, .local_rank = 1, .rank = 1, .status = {.code = 1}}, true});
  }

 private:
  NodeOffer offer() const { return {.workers = 8, .port = 29'500, .requested_rank = requested_rank_, .name = name_}; }

  void connected() {
    shared->connected.add();
    if (on_joined_) std::exchange(on_joined_, {})();
    if (running_)
      coordination_->send(NodeBack{0, *running_, offer()});
    else
      coordination_->send(NodeReady{0, offer()});
  }

  void on_message(const ToAgent& message) {
    std::visit(overloaded{
                   [&](const TakeSeat& m) {
                     shared->size[static_cast<std::size_t>(m.seat.round)] = m.seat.group_world_size;
                     coordination_->send(NodeConfirmed{0, m.seat.round});
                   },
                   [&](const StartRound& m) {
                     running_ = m.round;
                     coordination_->send(NodeRunning{0, m.round});
                     shared->started[static_cast<std::size_t>(m.round)].add();
                   },
                   [&](const EndRound& m) {
                     running_.reset();
                     shared->stopped[static_cast<std::size_t>(m.round)].add();
                     coordination_->send(NodeReady{0, offer()});
                   },
                   [&](const EndJob& m) {
                     std::fprintf(stderr, "%s: the job ended: %s\n", name_.c_str(), m.outcome.reason.c_str());
                     ++shared->ended;
                   },
                   [](const auto&) {},
               },
               message);
  }

  std::string name_;
  std::optional<int> requested_rank_, running_;
  std::function<void()> on_joined_;
  std::unique_ptr<Coordination> coordination_;
};

void pin_to_core(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

// A process of agents: starts them at the first byte of `orders`, has a worker of the last one fail at each further
// one.
class Process {
 public:
  Process(const Plan& plan, std::size_t first, std::size_t count, unsigned network, int core) : count_(count) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) fail("pipe");
    orders_ = ends[1];
    pid_ = fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[1]);
      pin_to_core(core);
      own_network = network;
      counting = first > 0;
      run(plan, first, ends[0]);
    }
    close(ends[0]);
  }
  ~Process() {
    kill();
    close(orders_);
  }
  Process(const Process&) = delete;

  void order() const {
    if (write(orders_, "x", 1) != 1) fail("write");
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  std::size_t count() const { return count_; }

  double cpu_seconds() const {
    clockid_t clock{};
    timespec time{};
    if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  }
  double peak_mib() const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
    return 0;
  }

 private:
  [[noreturn]] void run(const Plan& plan, std::size_t first, int orders) try {
    asio::io_context io(1);
    std::vector<std::unique_ptr<Node>> nodes;
    for (std::size_t i = 0; i < count_; ++i) nodes.push_back(std::make_unique<Node>(io, plan, first + i));
    asio::posix::stream_descriptor orders_end(io, orders);
    char order = 0;
    bool running = false;
    std::size_t next = 0;
    std::function<void()> start_next = [&] {
      if (next < nodes.size()) nodes[next++]->start(start_next);
    };
    std::function<void()> await = [&] {
      orders_end.async_read_some(asio::buffer(&order, 1), [&](const std::error_code& error, std::size_t) {
        if (error) _exit(0);
        if (std::exchange(running, true))
          nodes.back()->lose_worker();
        else
          for (std::size_t i = 0; i < kConcurrentJoins; ++i) start_next();
        await();
      });
    };
    await();
    ++shared->ready;
    io.run();
    _exit(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "world_load: %s\n", error.what());
    _exit(1);
  }

  std::size_t count_;
  int orders_ = -1;
  pid_t pid_ = -1;
};

template <class Done>
bool within_limit(Done done) {
  for (const auto end = Clock::now() + kStageLimit; !done();) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// The newest round that so many agents have started; 0: none.
std::size_t round_of(std::size_t agents) {
  for (std::size_t round = kTrackedRounds; round-- > 1;)
    if (shared->size[round] == static_cast<int>(agents) && shared->started[round].count == static_cast<int>(agents))
      return round;
  return 0;
}

double seconds_between(std::int64_t begin, std::int64_t end) { return static_cast<double>(end - begin) / 1e9; }

// Per message type: [messages, bytes].
json counts(const Traffic& traffic) {
  json out = json::object();
  for (std::size_t i = 0; i < kTypes.size(); ++i)
    if (traffic.messages[i] > 0) out[kTypes[i]] = {traffic.messages[i].load(), traffic.bytes[i].load()};
  return out;
}

class World {
 public:
  explicit World(const Plan& plan) : plan_(plan) {
    const int last_core = static_cast<int>(std::thread::hardware_concurrency()) - 1;
    for (std::size_t first = 0; first < plan.agents;) {
      const std::size_t most = first < 2 ? 1 : first < kStandbys ? kStandbys - first : kAgentsPerProcess;
      const std::size_t count = std::min(plan.agents - first, most);
      const auto network = static_cast<unsigned>(processes_.size() + 1);
      processes_.push_back(std::make_unique<Process>(plan, first, count, network, first < kStandbys ? last_core : 0));
      first += count;
      if (!within_limit([&] { return shared->ready == static_cast<int>(processes_.size()); }))
        throw std::runtime_error("the agents cannot be made");
    }
  }

  json form() {
    const Process& coordinator = *processes_.front();
    const double coordinator_before = coordinator.cpu_seconds(), agents_before = agents_cpu();
    const std::int64_t begin = now_ns();
    for (const auto& process : processes_) process->order();
    if (!within_limit([&] { return round_of(plan_.agents) > 0; })) return give_up("form");
    return {{"seconds", seconds_between(begin, shared->started[round_of(plan_.agents)].last)},
            {"coordinator_cpu_seconds", coordinator.cpu_seconds() - coordinator_before},
            {"agents_cpu_seconds", agents_cpu() - agents_before},
            {"coordinator_peak_mib", coordinator.peak_mib()},
            {"sent", counts(shared->sent)},
            {"received", counts(shared->received)}};
  }

  json lose_worker() {
    const std::size_t round = round_of(plan_.agents);
    processes_.back()->order();
    if (!within_limit([&] { return round_of(plan_.agents) > round; })) return give_up("failure");
    return {{"told_seconds", seconds_between(shared->failed_at, shared->stopped[round].last)},
            {"seconds", seconds_between(shared->failed_at, shared->started[round_of(plan_.agents)].last)}};
  }

  json lose_coordinator() {
    shared->connected.count = 0;
    const std::int64_t begin = now_ns();
    processes_.front()->kill();
    if (!within_limit([&] { return round_of(plan_.agents - 1) > 0; })) return give_up("failover");
    return {{"found_seconds", seconds_between(begin, shared->connected.last)},
            {"seconds", seconds_between(begin, shared->started[round_of(plan_.agents - 1)].last)}};
  }

 private:
  double agents_cpu() const {
    double sum = 0;
    for (std::size_t i = 2; i < processes_.size(); ++i) sum += processes_[i]->cpu_seconds();
    return sum;
  }

  json give_up(const char* what) {
    std::fprintf(stderr,
                 "world_load: not within %d s: %s of %zu agents (%d connected, %d ended, %d isolated, %d troubles)\n",
                 static_cast<int>(kStageLimit.count()), what, plan_.agents, shared->connected.count.load(),
                 shared->ended.load(), shared->isolated.load(), shared->troubles.load());
    std::fprintf(stderr, "sent %s received %s\n", counts(shared->sent).dump().c_str(),
                 counts(shared->received).dump().c_str());
    return nullptr;
  }

  Plan plan_;
  std::vector<std::unique_ptr<Process>> processes_;
};

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool with_failover = words.size() == 4 && words[3] == "failover" && words[0] == "elastic";
  if (words.size() != (with_failover ? 4 : 3) || (words[0] != "elastic" && words[0] != "static") ||
      (words[2] != "plain" && words[2] != "token") || std::stoul(words[1]) < 3) {
    std::fputs("usage: world_load elastic|static AGENTS plain|token [failover]   (3 agents and more)\n", stderr);
    return 2;
  }
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  shared = new (memory) Shared{};
  World world({words[0] == "static", words[2] == "token", std::stoul(words[1]), test::free_port()});
  const json form = world.form();
  const json failure = form.is_null() ? form : world.lose_worker();
  const json failover = failure.is_null() || !with_failover ? json() : world.lose_coordinator();
  std::printf("%s\n", json{{"form", form}, {"failure", failure}, {"failover", failover}}.dump().c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "world_load: %s\n", error.what());
  return 1;
}
