#include "rendezvous/coordinator_server.h"

#include <pthread.h>

#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/control_link.h"
#include "rendezvous/overloaded.h"
#include "rendezvous/peer_listener.h"
#include "rendezvous/signals_blocked.h"

namespace ddprun {
namespace {

using asio::ip::tcp;

constexpr int kLooksPerLease = 10;
constexpr std::chrono::milliseconds kProbeEvery{50};
constexpr Duration kBeyondLease = std::chrono::seconds(1);  // for the kernel to end workers, and for slow clocks

bool is_loopback(const std::string& address) {
  std::error_code no_address;
  const auto parsed = asio::ip::make_address(address, no_address);
  return !no_address && parsed.is_loopback();
}

// Asks until it is refused whether an agent still listens: then its process is dead. Or until nobody holds it.
class Probe : public std::enable_shared_from_this<Probe> {
 public:
  Probe(asio::io_context& io, const tcp::endpoint& agent, std::function<void()> on_refused)
      : socket_(io), again_(io), agent_(agent), on_refused_(std::move(on_refused)) {}

  void ask() {
    socket_ = tcp::socket(socket_.get_executor());
    socket_.async_connect(agent_, [held = weak_from_this()](const std::error_code& error) {
      const auto self = held.lock();
      if (!self) return;
      if (error == asio::error::connection_refused) return self->on_refused_();
      self->again_.expires_after(kProbeEvery);
      self->again_.async_wait([held](const std::error_code&) {
        if (const auto waiting = held.lock()) waiting->ask();
      });
    });
  }

 private:
  tcp::socket socket_;
  asio::steady_timer again_;
  tcp::endpoint agent_;
  std::function<void()> on_refused_;
};

}  // namespace

class CoordinatorServer::Impl {
 public:
  explicit Impl(Options options)
      : options_(std::move(options)),
        coordinator_(options_.policy, Clock::now(),
                     static_cast<std::uint64_t>(Clock::now().time_since_epoch().count())),
        listener_(io_, options_.listening, options_.trust,
                  {[this](PeerConnection peer) { welcome(std::move(peer)); }, options_.log}),
        decision_(io_),
        look_(io_) {
    look_around();
    decide_in_time();
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() {
    io_.stop();
    thread_.join();
  }

  bool wait_until_left(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    return left_.wait_for(lock, most, [this] { return nobody_; });
  }

 private:
  struct Agent {
    std::unique_ptr<ControlLink> link;
    std::string address;  // of its end
    TimePoint heard;
    bool belongs = false;  // it has said hello
    std::uint16_t control_port = 0;
  };

  void run();
  void welcome(PeerConnection peer);
  void hear(NodeId id, const std::string& bytes);
  void hear(NodeId id, const FromAgent& message);
  void hello(NodeId id, const Hello& message);
  void lose(NodeId id, const std::string& how);
  void drop(NodeId id, const std::string& why);
  void probe(NodeId id, const std::string& address, std::uint16_t port);
  void look_around();
  void decide_in_time();

  void coordinate(const Message& message);
  void obey(const Order& order);
  void form(const Round& round);
  void tell(NodeId id, const ToAgent& message);
  void tell_round(const ToAgent& message);
  void tell_all(const ToAgent& message);
  void note_presence();

  Options options_;
  asio::io_context io_{1};  // one thread
  Coordinator coordinator_;
  std::map<NodeId, Agent> agents_;
  std::map<NodeId, std::shared_ptr<Probe>> probes_;
  std::vector<NodeId> round_;  // by group rank
  std::string reached_by_;     // an address of ours by which another host reached us
  bool over_ = false;
  PeerListener listener_;
  asio::steady_timer decision_, look_;
  std::mutex mutex_;
  std::condition_variable left_;
  bool nobody_ = false;  // the job is over and no agent is connected
  std::thread thread_;
};

void CoordinatorServer::Impl::run() {
  pthread_setname_np(pthread_self(), "ddprun-coord");
  while (!io_.stopped()) try {
      io_.run();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "ddprun: the coordinator goes on after an internal error: %s\n", error.what());
    }
}

void CoordinatorServer::Impl::welcome(PeerConnection peer) {
  const NodeId id = peer.peer().instance;
  if (agents_.contains(id)) lose(id, "it connected anew");
  Agent& agent = agents_[id];
  agent.heard = Clock::now();
  agent.link = std::make_unique<ControlLink>(
      std::move(peer), ControlLink::Hooks{[this, id](const std::string& message) { hear(id, message); },
                                          [this, id](const std::string& why) { lose(id, why); }});
  agent.address = agent.link->remote_address();
  if (const std::string local = agent.link->local_address(); !is_loopback(local)) reached_by_ = local;
}

void CoordinatorServer::Impl::hear(NodeId id, const std::string& bytes) {
  Agent& agent = agents_.at(id);
  agent.heard = Clock::now();
  try {
    hear(id, decode_from_agent(bytes, id));
  } catch (const BadMessage& bad) {
    drop(id, std::string("it sent what is no message: ") + bad.what());
  }
}

void CoordinatorServer::Impl::hear(NodeId id, const FromAgent& message) {
  if (!agents_.at(id).belongs && !std::holds_alternative<Hello>(message)) return drop(id, "it did not say hello");
  std::visit(overloaded{
                 [&](const Hello& m) { hello(id, m); },
                 [&](const Heartbeat& m) {
                   tell(id, HeartbeatAnswer{m.number, coordinator_.attendance()});
                 },
                 [&](const FailureWords& m) { tell_all(m); },
                 [&](NodeReady m) {
                   if (m.offer.host.empty()) m.offer.host = agents_.at(id).address;
                   coordinate(m);
                 },
                 [&](NodeBack m) {
                   if (m.offer.host.empty()) m.offer.host = agents_.at(id).address;
                   coordinate(m);
                 },
                 [&](const auto& m) { coordinate(m); },
             },
             message);
}

// Who cannot belong to the job is told why, and closes the connection itself.
void CoordinatorServer::Impl::hello(NodeId id, const Hello& message) {
  Agent& agent = agents_.at(id);
  if (const std::string why = difference(options_.fingerprint, message.fingerprint); !why.empty()) {
    tell(id, EndJob{{Verdict::refused, 0, why, std::nullopt}});
    return;
  }
  agent.belongs = true;
  agent.control_port = message.control_port;
  probes_.erase(id);
  tell(id, Welcome{agent.address, options_.lease});
}

void CoordinatorServer::Impl::drop(NodeId id, const std::string& why) {
  options_.log("dropped the connection of " + agents_.at(id).link->peer().name + ": " + why);
  lose(id, "its connection was closed");
}

void CoordinatorServer::Impl::lose(NodeId id, const std::string& how) {
  Agent agent = std::move(agents_.extract(id).mapped());
  agent.link->close();
  asio::post(io_, [link = std::move(agent.link)] {});  // we may be in one of its handlers
  if (!agent.belongs) return note_presence();
  coordinate(NodeLost{id, agent.heard + options_.lease + kBeyondLease, how});
  probe(id, agent.address, agent.control_port);
  note_presence();
}

// Its agent answered by name and port before, so who refuses there now is its kernel: the process is gone.
void CoordinatorServer::Impl::probe(NodeId id, const std::string& address, std::uint16_t port) {
  std::error_code no_address;
  const auto parsed = asio::ip::make_address(address, no_address);
  if (no_address || port == 0 || over_) return;
  const auto probe = std::make_shared<Probe>(io_, tcp::endpoint(parsed, port), [this, id] {
    probes_.erase(id);
    coordinate(NodeGone{id});
  });
  probes_[id] = probe;
  probe->ask();
}

void CoordinatorServer::Impl::look_around() {
  const TimePoint now = Clock::now();
  std::vector<std::pair<NodeId, std::string>> lost;
  for (const auto& [id, agent] : agents_) {
    if (now - agent.heard >= options_.lease)
      lost.emplace_back(
          id, "nothing was heard of it for " +
                  std::to_string(std::chrono::duration_cast<std::chrono::seconds>(options_.lease).count()) + " s");
    else if (agent.link->stuck())
      lost.emplace_back(id, "it does not read what it is told");
  }
  for (const auto& [id, how] : lost) lose(id, how);
  look_.expires_after(options_.lease / kLooksPerLease);
  look_.async_wait([this](const std::error_code& error) {
    if (!error) look_around();
  });
}

void CoordinatorServer::Impl::decide_in_time() {
  const auto deadline = coordinator_.next_deadline();
  if (!deadline) return void(decision_.cancel());
  decision_.expires_at(*deadline);
  decision_.async_wait([this](const std::error_code& error) {
    if (!error) coordinate(CoordinatorTick{});
  });
}

void CoordinatorServer::Impl::coordinate(const Message& message) {
  for (const Order& order : coordinator_.on(message, Clock::now())) obey(order);
  decide_in_time();
}

void CoordinatorServer::Impl::obey(const Order& order) {
  std::visit(overloaded{
                 [&](const FormRound& o) { form(o.round); },
                 [&](const StartRound& o) { tell_round(o); },
                 [&](const EndRound& o) { tell_round(o); },
                 [&](const EndJob& o) {
                   over_ = true;
                   tell_all(o);
                   note_presence();
                 },
                 [&](const Recall& o) {
                   tell(o.node, EndRound{o.round, false, "this node was out of reach, and the others regrouped"});
                 },
                 [&](const Dismiss& o) { tell(o.node, EndJob{o.outcome}); },
             },
             order);
}

void CoordinatorServer::Impl::form(const Round& decided) {
  Round round = decided;
  if (is_loopback(round.master_host) && !reached_by_.empty()) round.master_host = reached_by_;
  round_.clear();
  for (const RoundNode& node : round.nodes) round_.push_back(node.id);
  const std::vector<Seat> all = seats(round);
  for (std::size_t i = 0; i < all.size(); ++i) tell(round_[i], TakeSeat{all[i]});
}

void CoordinatorServer::Impl::tell(NodeId id, const ToAgent& message) {
  if (const auto found = agents_.find(id); found != agents_.end()) found->second.link->send(encode(message));
}

void CoordinatorServer::Impl::tell_round(const ToAgent& message) {
  const std::string bytes = encode(message);
  for (const NodeId id : round_)
    if (const auto found = agents_.find(id); found != agents_.end()) found->second.link->send(bytes);
}

void CoordinatorServer::Impl::tell_all(const ToAgent& message) {
  const std::string bytes = encode(message);
  for (auto& [id, agent] : agents_)
    if (agent.belongs) agent.link->send(bytes);
}

void CoordinatorServer::Impl::note_presence() {
  const std::lock_guard lock(mutex_);
  nobody_ = over_ && agents_.empty();
  left_.notify_all();
}

CoordinatorServer::CoordinatorServer(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
CoordinatorServer::~CoordinatorServer() = default;
bool CoordinatorServer::wait_until_left(std::chrono::milliseconds most) { return impl_->wait_until_left(most); }

}  // namespace ddprun
