#include "rendezvous/coordination/coordinator_server.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>
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

#include "rendezvous/base/overloaded.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/signals_blocked.h"
#include "rendezvous/coordination/control_link.h"
#include "rendezvous/coordination/quorum_contact.h"
#include "rendezvous/peer/peer_listener.h"
#include "rendezvous/store/proxy/store_links.h"
#include "rendezvous/store/proxy/store_opening.h"

namespace ddprun {
namespace {

using asio::ip::tcp;

constexpr int kLooksPerLease = 10;
constexpr std::size_t kCallersMax = 8192;  // proved, but not of the job so far
constexpr std::chrono::seconds kCallerLimit{30};
constexpr std::size_t kAnswersKept = 8;
constexpr std::chrono::milliseconds kContactEvery{100};
constexpr std::chrono::milliseconds kProbeEvery{50};
constexpr int kProbesPerSecond = 1000;  // of all together

std::uint64_t clock_seed() { return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()); }

bool is_loopback(const std::string& address) {
  std::error_code no_address;
  const auto parsed = asio::ip::make_address(address, no_address);
  return !no_address && parsed.is_loopback();
}

// Asks until it is refused whether an agent still listens: then its process is dead. Or until nobody holds it.
class Probe : public std::enable_shared_from_this<Probe> {
 public:
  struct Hooks {
    std::function<void()> on_refused;
    std::function<Duration()> pause;  // until it asks again
  };
  Probe(asio::io_context& io, const tcp::endpoint& agent, Hooks hooks)
      : socket_(io), again_(io), agent_(agent), hooks_(std::move(hooks)) {}

  void ask_in(Duration time) {
    again_.expires_after(time);
    again_.async_wait([held = weak_from_this()](const std::error_code&) {
      if (const auto self = held.lock()) self->ask();
    });
  }

  const tcp::endpoint& agent() const { return agent_; }

  void ask() {
    socket_ = tcp::socket(socket_.get_executor());
    socket_.async_connect(agent_, [held = weak_from_this()](const std::error_code& error) {
      const auto self = held.lock();
      if (!self) return;
      if (error == asio::error::connection_refused) return self->hooks_.on_refused();
      std::error_code ignored;
      self->socket_.close(ignored);  // it costs the agent a place for unauthenticated peers
      self->ask_in(self->hooks_.pause());
    });
  }

 private:
  tcp::socket socket_;
  asio::steady_timer again_;
  tcp::endpoint agent_;
  Hooks hooks_;
};

}  // namespace

class CoordinatorServer::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)), decision_(io_), look_(io_) {
    listen(options_.listening);
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() {
    io_.stop();
    thread_.join();
  }

  template <class Function>
  void post(Function function) {
    asio::post(io_, std::move(function));
  }

  void lead();
  void lead(const Succession& succession, TimePoint asked_at);
  void refer_to(int term, const std::optional<ControlAddress>& coordinator);
  void listen(const Listening& listening) {
    listeners_.emplace_back(
        io_, listening, options_.trust,
        PeerListener::Hooks{[this](PeerConnection peer) { on_connection(std::move(peer)); }, options_.log});
  }
  void knows(const RecordId& newest) { elsewhere_.record = newest; }
  void knows_end(const Outcome& outcome) { end_ = outcome; }
  void offer_store(int round, const StoreGateway& store) { store_.emplace(round, store); }

  bool wait_until_left(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    return left_.wait_for(lock, most, [this] { return nobody_; });
  }

 private:
  struct Agent {  // that has said hello
    std::unique_ptr<ControlLink> link;
    std::string address;  // of its end
    TimePoint heard;
    std::uint16_t control_port = 0;
    std::deque<std::pair<std::uint64_t, TimePoint>> answers = {};  // when they were given
  };
  struct Caller {  // that has not, or wants something else
    std::unique_ptr<ControlLink> link;
    TimePoint since;
  };
  using CallerId = std::uint64_t;

  void run();
  void end_after(const std::exception& error);
  void on_connection(PeerConnection peer);
  void on_caller_message(CallerId id, const std::string& bytes);
  void hand_to_store(CallerId id, int round);
  void on_hello(CallerId id, const Hello& message);
  void end_caller(CallerId id);
  void admit(std::unique_ptr<ControlLink> link, const Hello& message);
  void on_message(NodeId id, const std::string& bytes);
  void on_message(NodeId id, const FromAgent& message);
  void on_heartbeat(NodeId id, const Heartbeat& message);
  void lose(NodeId id, const std::string& how);
  void drop(NodeId id, const std::string& why);
  void probe(NodeId id, const std::string& address, std::uint16_t port, Duration in = {});
  Duration probe_pause() const;
  void replace(const ControlAddress& place);
  void check_leases();
  void decide_in_time();
  Duration quorum_age();
  const std::optional<Attendance>& attendance();
  void stop_leading(const Elsewhere& told);
  Elsewhere where_else(const ControlLink& asker) const;

  void dispatch(const Message& message);
  void execute(const Order& order);
  void form(const Round& round);
  void send_record_to_spare(NodeId id);
  void send_to(NodeId id, const ToAgent& message);
  void send_to_round(const ToAgent& message);
  void send_to_all(const ToAgent& message);
  void update_presence();

  Options options_;
  asio::io_context io_{1};                  // one thread
  std::optional<Coordinator> coordinator_;  // while we lead
  Elsewhere elsewhere_;                     // while we do not
  std::optional<Outcome> end_;              // of the job
  RecordId newest_;                         // of what we lead
  QuorumContact contact_;
  TimePoint contact_at_, contact_known_at_;
  std::optional<Attendance> attendance_;
  TimePoint attendance_known_at_;
  bool looking_ = false;
  std::optional<std::pair<int, StoreGateway>> store_;  // the newest round's, where it is here
  CallerId last_caller_ = 0;
  std::map<CallerId, Caller> callers_;
  std::map<NodeId, Agent> agents_;
  std::map<NodeId, std::shared_ptr<Probe>> probes_;
  std::vector<NodeId> round_;  // by group rank
  std::string record_;         // of it, as it is told; empty: there was none
  std::string reached_by_;     // an address of ours by which another host reached us
  bool failed_ = false;
  std::list<PeerListener> listeners_;
  asio::steady_timer decision_, look_;
  std::optional<TimePoint> decide_at_;
  std::mutex mutex_;
  std::condition_variable left_;
  bool nobody_ = true;  // no agent is left that we lead, or we led
  std::thread thread_;
};

void CoordinatorServer::Impl::run() {
  pthread_setname_np(pthread_self(), "ddprun-coord");
  while (!io_.stopped()) try {
      io_.run();
    } catch (const std::exception& error) {
      end_after(error);
    }
}

// Its state has advanced by half a step, and orders are lost: what it led is taken over by an election, from the
// record. An error that comes again would do so in every state.
void CoordinatorServer::Impl::end_after(const std::exception& error) {
  const std::string what = std::string("an internal error: ") + error.what();
  if (std::exchange(failed_, true)) {
    print_line(stderr, "ddprun: " + what + ", the second one in the coordinator; ddprun ends. Please report this.");
    std::abort();
  }
  options_.log("this node no longer coordinates the job, after " + what + ". Please report this.");
  stop_leading({coordinator_ ? coordinator_->term() : elsewhere_.term, {}});
  while (!callers_.empty()) end_caller(callers_.begin()->first);
  check_leases();  // its timer may be what failed
}

void CoordinatorServer::Impl::lead() {
  if (coordinator_) return;
  coordinator_.emplace(options_.policy, Clock::now(), clock_seed(), options_.self);
  attendance_known_at_ = {};
  contact_ = {};
  newest_ = {};
  record_.clear();
  update_presence();
  decide_in_time();
  if (!looking_) check_leases();
}

void CoordinatorServer::Impl::lead(const Succession& succession, TimePoint asked_at) {
  stop_leading({});
  coordinator_.emplace(options_.policy, Clock::now(), clock_seed(), options_.self.value_or(0), succession);
  contact_ = {};
  contact_known_at_ = attendance_known_at_ = {};
  newest_ = {succession.term, succession.record.number};
  record_.clear();
  Duration in{};  // most will have come by themselves when it is their turn
  for (const RoundNode& node : succession.record.nodes) {
    contact_.answered(node.id, asked_at);
    if (node.id != options_.self) probe(node.id, node.control.host, node.control.port, in);
    in += std::chrono::seconds(1) / kProbesPerSecond;
  }
  update_presence();
  decide_in_time();
  if (!looking_) check_leases();
}

void CoordinatorServer::Impl::refer_to(int term, const std::optional<ControlAddress>& coordinator) {
  stop_leading({term, coordinator});
}

// Those we led see the end of their connections once they have been told.
void CoordinatorServer::Impl::stop_leading(const Elsewhere& told) {
  elsewhere_.term = told.term;
  elsewhere_.coordinator = told.coordinator;
  coordinator_.reset();
  decide_in_time();
  probes_.clear();
  for (auto& [id, agent] : agents_) agent.link->send(encode(ToAgent(where_else(*agent.link))));
  update_presence();
}

Elsewhere CoordinatorServer::Impl::where_else(const ControlLink& asker) const {
  Elsewhere out = elsewhere_;
  out.agent = options_.self.value_or(0);
  if (out.coordinator && is_loopback(out.coordinator->host) && !is_loopback(asker.remote_address()))
    out.coordinator->host = asker.local_address();  // it is on this host
  return out;
}

void CoordinatorServer::Impl::on_connection(PeerConnection peer) {
  if (callers_.size() >= kCallersMax) return;
  const CallerId id = ++last_caller_;
  Caller& caller = callers_[id];
  caller.since = Clock::now();
  caller.link = std::make_unique<ControlLink>(
      std::move(peer), ControlLink::Hooks{[this, id](const std::string& message) { on_caller_message(id, message); },
                                          [this, id](const std::string&) { end_caller(id); }});
  if (const std::string local = caller.link->local_address(); !is_loopback(local)) reached_by_ = local;
  if (!looking_) check_leases();
}

void CoordinatorServer::Impl::on_caller_message(CallerId id, const std::string& bytes) {
  const ControlLink& link = *callers_.at(id).link;
  if (const auto round = parse_store_opening(bytes)) return hand_to_store(id, *round);
  try {
    const FromAgent message = decode_from_agent(bytes, link.peer().instance);
    if (const auto* hello = std::get_if<Hello>(&message)) return this->on_hello(id, *hello);
    if (const auto* request = std::get_if<VoteRequest>(&message))
      return options_.on_vote_request(*request, [this, id](const Vote& vote) {
        post([this, id, vote] {
          if (const auto found = callers_.find(id); found != callers_.end())
            found->second.link->send(encode(ToAgent(vote)));
        });
      });
    if (const auto* call = std::get_if<CoordinatorCall>(&message))
      return options_.on_call(*call, {link.remote_address(), call->control_port});
    options_.log("dropped the connection of " + link.peer().name + ": it did not say hello");
  } catch (const BadMessage& bad) {
    options_.log("dropped the connection of " + link.peer().name + ": it sent what is no message: " + bad.what());
  }
  end_caller(id);
}

void CoordinatorServer::Impl::hand_to_store(CallerId id, int round) {
  if (store_ && store_->first == round) serve_store(callers_.at(id).link->release(), store_->second);
  end_caller(id);
}

void CoordinatorServer::Impl::end_caller(CallerId id) {
  auto caller = callers_.extract(id);
  if (caller.empty()) return;
  caller.mapped().link->close();
  asio::post(io_, [link = std::move(caller.mapped().link)] {});  // we may be in one of its handlers
}

// Who cannot belong to the job is told why, and closes the connection itself.
void CoordinatorServer::Impl::on_hello(CallerId id, const Hello& message) {
  ControlLink& link = *callers_.at(id).link;
  if (const std::string why = difference(options_.fingerprint, message.fingerprint); !why.empty())
    return link.send(encode(ToAgent(EndJob{{Verdict::refused, 0, why, std::nullopt}})));
  if (message.instead_of != 0) {
    dispatch(JobAbandoned{message.instead_of});
    if (agents_.contains(message.instead_of)) lose(message.instead_of, "it gave up its part");
    probes_.erase(message.instead_of);
  }
  const bool knows_more = coordinator_ && message.record > newest_;
  if (knows_more && newest_ == RecordId{}) {
    dispatch(JobElsewhere{link.peer().instance, message.record.round});
    return link.send(encode(ToAgent(where_else(link))));
  }
  if (knows_more) stop_leading({message.record.term, {}});
  if (!coordinator_) return link.send(encode(end_ ? ToAgent(EndJob{*end_, true}) : ToAgent(where_else(link))));
  admit(std::move(callers_.extract(id).mapped().link), message);
}

void CoordinatorServer::Impl::admit(std::unique_ptr<ControlLink> link, const Hello& message) {
  const NodeId id = link->peer().instance;
  if (agents_.contains(id)) lose(id, "it connected anew");
  link->set_hooks({[this, id](const std::string& bytes) { on_message(id, bytes); },
                   [this, id](const std::string& why) { lose(id, why); }});
  const TimePoint now = Clock::now();
  Agent& agent = agents_[id];
  agent = {std::move(link), "", now, message.control_port};
  agent.address = agent.link->remote_address();
  agent.answers = {{0, now}};
  probes_.erase(id);
  replace({agent.address, agent.control_port});
  contact_.answered(id, now);
  update_presence();
  send_to(id, Welcome{agent.address, options_.lease, coordinator_->term(), quorum_age(), options_.self.value_or(0)});
}

void CoordinatorServer::Impl::on_message(NodeId id, const std::string& bytes) {
  agents_.at(id).heard = Clock::now();
  try {
    on_message(id, decode_from_agent(bytes, id));
  } catch (const BadMessage& bad) {
    drop(id, std::string("it sent what is no message: ") + bad.what());
  }
}

void CoordinatorServer::Impl::on_message(NodeId id, const FromAgent& message) {
  const auto completed = [&](auto m) {
    const Agent& agent = agents_.at(id);
    if (m.offer.host.empty()) m.offer.host = agent.address;
    m.offer.control = {agent.address, agent.control_port};
    dispatch(m);
  };
  std::visit(overloaded{
                 [&](const Hello&) { drop(id, "it said hello twice"); },
                 [&](const VoteRequest&) { drop(id, "it asked for a vote where it had said hello"); },
                 [&](const CoordinatorCall&) { drop(id, "it called where it had said hello"); },
                 [&](const Heartbeat& m) { on_heartbeat(id, m); },
                 [&](const FailureWords& m) { send_to_all(m); },
                 [&](const NodeReady& m) {
                   completed(m);
                   send_record_to_spare(id);
                 },
                 [&](const NodeBack& m) { completed(m); },
                 [&](const auto& m) { dispatch(m); },
             },
             message);
}

void CoordinatorServer::Impl::on_heartbeat(NodeId id, const Heartbeat& message) {
  if (!coordinator_) return;
  Agent& agent = agents_.at(id);
  while (!agent.answers.empty() && agent.answers.front().first < message.answered) agent.answers.pop_front();
  if (!agent.answers.empty() && agent.answers.front().first == message.answered)
    contact_.answered(id, agent.answers.front().second);
  if (agent.answers.size() >= kAnswersKept) agent.answers.pop_front();
  agent.answers.emplace_back(message.number, Clock::now());
  send_to(id, HeartbeatAnswer{message.number, quorum_age(), attendance()});
}

// As with quorum_age(): the count of a thousand nodes is not made anew for each of them.
const std::optional<Attendance>& CoordinatorServer::Impl::attendance() {
  const TimePoint now = Clock::now();
  if (now - attendance_known_at_ >= kContactEvery) {
    attendance_ = coordinator_->attendance();
    attendance_known_at_ = now;
  }
  return attendance_;
}

// Sorting a thousand nodes' times for each of their messages would be waste: an older time is only more careful.
Duration CoordinatorServer::Impl::quorum_age() {
  const TimePoint now = Clock::now();
  if (now - contact_known_at_ >= kContactEvery) {
    contact_at_ = contact_.latest(coordinator_->electorates(), options_.self.value_or(0), now);
    contact_known_at_ = now;
  }
  return now - std::max(contact_at_, now - 2 * options_.lease);
}

void CoordinatorServer::Impl::drop(NodeId id, const std::string& why) {
  options_.log("dropped the connection of " + agents_.at(id).link->peer().name + ": " + why);
  lose(id, "its connection was closed");
}

void CoordinatorServer::Impl::lose(NodeId id, const std::string& how) {
  Agent agent = std::move(agents_.extract(id).mapped());
  agent.link->close();
  asio::post(io_, [link = std::move(agent.link)] {});  // we may be in one of its handlers
  if (!coordinator_) return update_presence();
  dispatch(NodeLost{id, agent.heard + options_.lease + kBeyondLease, how});
  probe(id, agent.address, agent.control_port);
  update_presence();
}

// Its agent answered by name and port before, so who refuses there now is its kernel: the process is gone.
void CoordinatorServer::Impl::probe(NodeId id, const std::string& address, std::uint16_t port, Duration in) {
  std::error_code no_address;
  const auto parsed = asio::ip::make_address(address, no_address);
  if (no_address || port == 0 || !coordinator_ || !coordinator_->awaits(id)) return;
  const auto on_refused = [this, id] {
    probes_.erase(id);
    dispatch(NodeGone{id});
  };
  const auto probe = std::make_shared<Probe>(io_, tcp::endpoint(parsed, port),
                                             Probe::Hooks{on_refused, [this] { return probe_pause(); }});
  probes_[id] = probe;
  probe->ask_in(in);
}

// An agent that listens where a lost one did has taken its port from the dead.
void CoordinatorServer::Impl::replace(const ControlAddress& place) {
  std::error_code no_address;
  const tcp::endpoint taken(asio::ip::make_address(place.host, no_address), place.port);
  if (no_address || place.port == 0) return;
  std::vector<NodeId> dead;
  for (const auto& [id, probe] : probes_)
    if (probe->agent() == taken) dead.push_back(id);
  for (const NodeId id : dead) {
    probes_.erase(id);
    dispatch(NodeGone{id});
  }
}

// Where many are lost they take turns.
Duration CoordinatorServer::Impl::probe_pause() const {
  const auto turns = static_cast<Duration::rep>(probes_.size());
  return std::max<Duration>(kProbeEvery, turns * Duration(std::chrono::seconds(1)) / kProbesPerSecond);
}

void CoordinatorServer::Impl::check_leases() {
  const TimePoint now = Clock::now();
  if (coordinator_ && !coordinator_->is_over() && quorum_age() > options_.lease) {
    options_.log("this node no longer coordinates the job: too many nodes are out of its reach");
    stop_leading({coordinator_->term(), {}});
  }
  std::vector<CallerId> idle;
  for (const auto& [id, caller] : callers_)
    if (now - caller.since >= kCallerLimit) idle.push_back(id);
  for (const CallerId id : idle) end_caller(id);
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
  looking_ = coordinator_ || !agents_.empty() || !callers_.empty();
  if (!looking_) return;  // until somebody comes
  look_.expires_after(options_.lease / kLooksPerLease);
  look_.async_wait([this](const std::error_code& error) {
    if (!error) check_leases();
  });
}

void CoordinatorServer::Impl::decide_in_time() {
  const auto deadline = coordinator_ ? coordinator_->next_deadline() : std::nullopt;
  if (deadline == decide_at_) return;  // mostly
  decide_at_ = deadline;
  if (!deadline) return void(decision_.cancel());
  decision_.expires_at(*deadline);
  decision_.async_wait([this](const std::error_code& error) {
    if (error) return;
    decide_at_.reset();
    dispatch(CoordinatorTick{});
  });
}

void CoordinatorServer::Impl::dispatch(const Message& message) {
  if (!coordinator_) return;
  for (const Order& order : coordinator_->on(message, Clock::now())) execute(order);
  decide_in_time();
  if (coordinator_ && coordinator_->is_over()) update_presence();
}

void CoordinatorServer::Impl::execute(const Order& order) {
  std::visit(overloaded{
                 [&](const FormRound& o) { form(o.round); },
                 [&](const StartRound& o) { send_to_round(o); },
                 [&](const EndRound& o) {
                   attendance_known_at_ = {};
                   send_to_round(o);
                 },
                 [&](const EndJob& o) { send_to_all(o); },
                 [&](const AllTold& o) { send_to_all(o); },
                 [&](const Recall& o) {
                   const char* missed = "this node was out of reach, and the others regrouped";
                   send_to(o.node, EndRound{o.round, false, o.reason.empty() ? missed : o.reason});
                 },
                 [&](const Dismiss& o) {
                   send_to(o.node, EndJob{o.outcome, o.for_all});
                 },
                 [&](const HandOver&) {
                   stop_leading({coordinator_->term(), {}});
                 },
             },
             order);
}

void CoordinatorServer::Impl::form(const Round& decided) {
  Round round = decided;
  if (is_loopback(round.master_host) && !reached_by_.empty()) round.master_host = reached_by_;
  round_.clear();
  for (RoundNode& node : round.nodes) {
    round_.push_back(node.id);
    if (is_loopback(node.control.host) && !reached_by_.empty()) node.control.host = reached_by_;
  }
  newest_ = round.id();
  attendance_known_at_ = {};  // nobody is waited for any more
  record_ = encode(ToAgent(KeepRecord{round}));
  const std::set<NodeId> seated(round_.begin(), round_.end());
  for (auto& [id, agent] : agents_)
    if (!seated.contains(id)) agent.link->send(record_);
  const std::vector<Seat> all = seats(round);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto found = agents_.find(round_[i]);
    if (found == agents_.end()) continue;
    if (i < kStandbys) found->second.link->send(record_);
    found->second.link->send(encode(ToAgent(TakeSeat{all[i], round.term})));
  }
}

// Who is in no round yet has to find whoever is elected, too.
void CoordinatorServer::Impl::send_record_to_spare(NodeId id) {
  const auto found = agents_.find(id);
  if (!coordinator_ || record_.empty() || found == agents_.end()) return;
  if (std::find(round_.begin(), round_.end(), id) == round_.end()) found->second.link->send(record_);
}

void CoordinatorServer::Impl::send_to(NodeId id, const ToAgent& message) {
  if (const auto found = agents_.find(id); found != agents_.end()) found->second.link->send(encode(message));
}

void CoordinatorServer::Impl::send_to_round(const ToAgent& message) {
  const std::string bytes = encode(message);
  for (const NodeId id : round_)
    if (const auto found = agents_.find(id); found != agents_.end()) found->second.link->send(bytes);
}

void CoordinatorServer::Impl::send_to_all(const ToAgent& message) {
  const std::string bytes = encode(message);
  for (auto& [id, agent] : agents_) agent.link->send(bytes);
}

void CoordinatorServer::Impl::update_presence() {
  const std::lock_guard lock(mutex_);
  nobody_ = agents_.empty() && (!coordinator_ || coordinator_->all_told());
  left_.notify_all();
}

CoordinatorServer::CoordinatorServer(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
CoordinatorServer::~CoordinatorServer() = default;
void CoordinatorServer::lead() {
  impl_->post([this] { impl_->lead(); });
}
void CoordinatorServer::lead(const Succession& succession, TimePoint asked_at) {
  impl_->post([this, succession, asked_at] { impl_->lead(succession, asked_at); });
}
void CoordinatorServer::refer_to(int term, const std::optional<ControlAddress>& coordinator) {
  impl_->post([this, term, coordinator] { impl_->refer_to(term, coordinator); });
}
void CoordinatorServer::listen_also(const Listening& listening) {
  impl_->post([this, listening] { impl_->listen(listening); });
}
void CoordinatorServer::knows(const RecordId& newest) {
  impl_->post([this, newest] { impl_->knows(newest); });
}
void CoordinatorServer::knows_end(const Outcome& outcome) {
  impl_->post([this, outcome] { impl_->knows_end(outcome); });
}
void CoordinatorServer::offer_store(int round, const StoreGateway& store) {
  impl_->post([this, round, store] { impl_->offer_store(round, store); });
}
bool CoordinatorServer::wait_until_left(std::chrono::milliseconds most) { return impl_->wait_until_left(most); }

}  // namespace ddprun
