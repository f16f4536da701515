#include "rendezvous/coordination/server/coordinator_server.h"

#include <pthread.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/base/error.h"
#include "rendezvous/base/overloaded.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/base/thread.h"
#include "rendezvous/coordination/server/coordinator_callers.h"
#include "rendezvous/coordination/server/coordinator_orders.h"
#include "rendezvous/coordination/server/coordinator_probes.h"
#include "rendezvous/coordination/server/coordinator_referral.h"
#include "rendezvous/coordination/server/coordinator_sessions.h"
#include "rendezvous/coordination/wire/copies_opening.h"
#include "rendezvous/peer/link_dialer.h"
#include "rendezvous/peer/loopback.h"
#include "rendezvous/peer/peer_listener.h"
#include "rendezvous/store/proxy/store_links.h"

namespace ddprun::rendezvous {
namespace {

constexpr int kChecksPerLease = 10;

}  // namespace

class CoordinatorServer::Impl {
 public:
  explicit Impl(Options options)
      : options_(std::move(options)),
        liveness_(options_.lease, options_.self.value_or(0), options_.outside_contact),
        referral_(options_.self.value_or(0)) {
    listen(options_.listening);
    if (const std::string refused = start_thread(thread_, [this] { run(); }); !refused.empty())
      throw Error("this node cannot take part in the job", refused,
                  "Raise the limit (ulimit -u, or the cgroup's pids.max).");
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
  void lead(const Succession& succession, TimePoint requested_at);
  void stop_leading(int term, const std::optional<ControlAddress>& elsewhere = {});
  void listen(const Listening& listening) {
    listeners_.emplace_back(
        io_, listening, options_.trust,
        PeerListener::Hooks{[this](PeerConnection peer) { on_connection(std::move(peer)); }, options_.log});
  }
  void record_stored(const RecordId& record) {
    orders_.record_stored(record, coordinator() && quorum_age() <= options_.lease);
  }
  void set_newest(const RecordId& newest) { referral_.set_newest(newest); }
  void set_job_end(const Outcome& outcome) { referral_.set_end(outcome); }
  void offer_store(int round, const StoreGateway& store) { store_.emplace(round, store); }

  TimePoint led_at() {
    const std::lock_guard lock(mutex_);
    return leads_ ? Clock::now() : led_at_;
  }
  bool wait_until_left(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    return left_.wait_for(lock, most, [this] { return all_left_; });
  }

 private:
  using CallerId = CoordinatorCallers::Id;

  void run();
  void on_internal_error(const std::exception& error);
  void on_connection(PeerConnection peer);
  void on_store_opening(int round, ControlLink& link);
  void on_copies_opening(ControlLink& link);
  void on_hello(CallerId id, const Hello& message);
  void admit(std::unique_ptr<ControlLink> link, const Hello& message);
  void on_message(NodeId id, const std::string& bytes);
  void on_message(NodeId id, const FromAgent& message);
  void on_heartbeat(NodeId id, const Heartbeat& message);
  void lose(NodeId id, const std::string& how);
  void drop(NodeId id, const std::string& why);
  void probe(NodeId id, const ControlAddress& agent, Duration in = {});
  void check_leases();
  void end_silent(TimePoint now);
  const Coordinator* coordinator() const { return orders_.coordinator(); }  // null: we do not lead
  Duration quorum_age() { return liveness_.quorum_age(*coordinator(), Clock::now()); }
  void hand_over() { step_down(coordinator()->term()); }
  void step_down(int term) {
    stop_leading(term);
    if (options_.on_stepped_down) options_.on_stepped_down();
  }
  void update_presence();

  Options options_;
  asio::io_context io_{1};  // one thread
  bool checks_leases_ = false;
  std::optional<std::pair<int, StoreGateway>> store_;  // the newest round's, if it is here
  CoordinatorCallers callers_{io_,
                              {[this](CallerId id, const Hello& message) { on_hello(id, message); },
                               [this](int round, ControlLink& link) { on_store_opening(round, link); },
                               [this](ControlLink& link) { on_copies_opening(link); }, options_.on_vote_request,
                               options_.on_announcement, options_.on_request, options_.log}};
  CoordinatorSessions sessions_{io_,
                                {[this](NodeId id, const std::string& bytes) { on_message(id, bytes); },
                                 [this](NodeId id, const std::string& why) { lose(id, why); }}};
  CoordinatorProbes probes_{io_, [this](NodeId id) { orders_.dispatch(NodeGone{id}); }};
  CoordinatorLiveness liveness_;
  CoordinatorReferral referral_;  // while we do not lead
  CoordinatorOrders orders_{
      io_,
      sessions_,
      options_.policy,
      options_.self,
      {[this] { hand_over(); }, [this] { update_presence(); }, options_.on_ledger, options_.on_record}};
  bool failed_ = false;
  std::list<PeerListener> listeners_;
  asio::steady_timer lease_timer_{io_};
  std::mutex mutex_;
  std::condition_variable left_;
  bool all_left_ = true;  // no agent is left that we lead or led
  bool leads_ = false;
  TimePoint led_at_ = {};
  std::thread thread_;
};

void CoordinatorServer::Impl::run() {
  pthread_setname_np(pthread_self(), "ddprun-coord");
  while (!io_.stopped()) try {
      io_.run();
    } catch (const std::exception& error) {
      on_internal_error(error);
    }
}

// Its state is half updated, and orders are lost: an election takes over the job, from the record. An error that comes
// again would do so in any state.
void CoordinatorServer::Impl::on_internal_error(const std::exception& error) {
  const std::string what = std::string("an internal error: ") + error.what();
  if (std::exchange(failed_, true)) {
    print_line(stderr, "ddprun: " + what + ", the second one in the coordinator; ddprun ends. Please report this.");
    std::abort();
  }
  options_.log("this node no longer coordinates the job, after " + what + ". Please report this.");
  step_down(coordinator() ? coordinator()->term() : referral_.term());
  callers_.end_all();
  check_leases();  // its timer may be what failed
}

void CoordinatorServer::Impl::lead() {
  if (coordinator()) return;
  liveness_.begin();
  orders_.begin();
  update_presence();
  if (!checks_leases_) check_leases();
}

void CoordinatorServer::Impl::lead(const Succession& succession, TimePoint requested_at) {
  stop_leading(0);
  liveness_.begin();
  orders_.begin(succession);
  update_presence();
  Duration in{};  // most will have connected before their turn
  for (const RoundNode& node : succession.record.nodes) {
    if (!options_.outside_contact) liveness_.followed(node.id, requested_at);
    if (node.id != options_.self) probe(node.id, node.control, in);
    in += std::chrono::seconds(1) / kProbesPerSecond;
  }
  if (!checks_leases_) check_leases();
}

// The agents that we led are told, and then close their connections.
void CoordinatorServer::Impl::stop_leading(int term, const std::optional<ControlAddress>& elsewhere) {
  referral_.refer_to(term, elsewhere);
  orders_.end();
  probes_.stop_all();
  sessions_.for_each([&](NodeId, ControlLink& link) { link.send(encode(ToAgent(referral_.referral_for(link)))); });
  update_presence();
}

void CoordinatorServer::Impl::on_connection(PeerConnection peer) {
  const ControlLink* link = callers_.add(std::move(peer), Clock::now());
  if (!link) return;
  if (const std::string local = link->local_address(); !options_.reached_by.empty() || !is_loopback(local))
    orders_.set_reached_by(options_.reached_by.empty() ? local : options_.reached_by);
  if (!checks_leases_) check_leases();
}

void CoordinatorServer::Impl::on_store_opening(int round, ControlLink& link) {
  if (store_ && store_->first == round) serve_store(link.release(), store_->second);
}

void CoordinatorServer::Impl::on_copies_opening(ControlLink& link) {
  if (options_.on_copies) give_away(link.release(), copies_welcome(), options_.on_copies);
}

// An agent that cannot belong to the job is told why, and closes the connection itself.
void CoordinatorServer::Impl::on_hello(CallerId id, const Hello& message) {
  ControlLink& link = *callers_.find(id);
  if (const std::string why = difference(options_.fingerprint, message.fingerprint); !why.empty())
    return link.send(encode(ToAgent(EndJob{{Verdict::refused, 0, why, std::nullopt}})));
  if (message.instead_of != 0) {
    orders_.dispatch(JobAbandoned{message.instead_of});
    if (sessions_.find(message.instead_of)) lose(message.instead_of, "it left in order to rejoin");
    probes_.stop(message.instead_of);
  }
  const bool knows_more = coordinator() && message.record > orders_.newest();
  if (knows_more && orders_.newest() == RecordId{}) {
    orders_.dispatch(JobElsewhere{link.peer().instance, message.record.round});
    return link.send(encode(ToAgent(referral_.referral_for(link))));
  }
  if (knows_more) step_down(message.record.term);
  if (!coordinator()) return link.send(encode(referral_.answer(link)));
  admit(callers_.take(id), message);
}

void CoordinatorServer::Impl::admit(std::unique_ptr<ControlLink> link, const Hello& message) {
  const NodeId id = link->peer().instance;
  if (sessions_.find(id)) lose(id, "it reconnected");
  const ControlAddress& agent = sessions_.add(std::move(link), message.control_port);
  liveness_.add(id, Clock::now());
  probes_.stop(id);
  probes_.on_agent(agent);
  update_presence();
  if (!coordinator()) return;
  sessions_.send(id, Welcome{agent.host, options_.lease, coordinator()->term(), quorum_age(), options_.self.value_or(0),
                             options_.loop_limit});
}

void CoordinatorServer::Impl::on_message(NodeId id, const std::string& bytes) {
  liveness_.heard(id, Clock::now());
  try {
    on_message(id, decode_from_agent(bytes, id));
  } catch (const BadMessage& bad) {
    drop(id, std::string("it sent an invalid message: ") + bad.what());
  }
}

void CoordinatorServer::Impl::on_message(NodeId id, const FromAgent& message) {
  const auto completed = [&](auto m) {
    m.offer.control = sessions_.place(id);
    if (m.offer.host.empty()) m.offer.host = m.offer.control.host;
    orders_.dispatch(m);
  };
  std::visit(overloaded{
                 [&](const Hello&) { drop(id, "it sent a second hello"); },
                 [&](const VoteRequest&) { drop(id, "it sent a vote request after its hello"); },
                 [&](const CoordinatorAnnouncement&) { drop(id, "it sent a coordinator call after its hello"); },
                 [&](const ClientRequest&) { drop(id, "it sent a request after its hello"); },
                 [&](const Heartbeat& m) { on_heartbeat(id, m); },
                 [&](const FailureText& m) { sessions_.send_to_all(m); },
                 [&](const NodeReady& m) {
                   completed(m);
                   orders_.send_record_to_spare(id);
                 },
                 [&](const NodeBack& m) { completed(m); },
                 [&](const auto& m) { orders_.dispatch(m); },
             },
             message);
}

void CoordinatorServer::Impl::on_heartbeat(NodeId id, const Heartbeat& message) {
  if (!coordinator()) return;
  if (message.loop_stood >= options_.loop_limit) {
    const auto stood = std::chrono::duration_cast<std::chrono::seconds>(message.loop_stood).count();
    return lose(id, "its agent has been stuck for " + std::to_string(stood) + " s");
  }
  liveness_.on_heartbeat(id, message, Clock::now());
  sessions_.send(id, HeartbeatAnswer{message.number, quorum_age(), orders_.attendance()});
}

void CoordinatorServer::Impl::drop(NodeId id, const std::string& why) {
  options_.log("dropped the connection of " + sessions_.find(id)->peer().name + ": " + why);
  lose(id, "its connection was closed");
}

void CoordinatorServer::Impl::lose(NodeId id, const std::string& how) {
  const TimePoint workers_until = liveness_.remove(id);
  const ControlAddress agent = sessions_.remove(id);
  if (!coordinator()) return update_presence();
  orders_.dispatch(NodeLost{id, workers_until, how});
  probe(id, agent);
  update_presence();
}

void CoordinatorServer::Impl::probe(NodeId id, const ControlAddress& agent, Duration in) {
  if (coordinator() && coordinator()->awaits(id)) probes_.start(id, agent, in);
}

void CoordinatorServer::Impl::check_leases() {
  const TimePoint now = Clock::now();
  if (coordinator() && !coordinator()->is_over() && quorum_age() > options_.lease) {
    options_.log(options_.outside_contact
                     ? "this node no longer coordinates the job: neither etcd nor all nodes of the round are in reach"
                     : "this node no longer coordinates the job: too many nodes are unreachable");
    hand_over();
  }
  callers_.end_idle(now);
  end_silent(now);
  if (orders_.waits_to_begin()) record_stored(orders_.newest());
  checks_leases_ = coordinator() || !sessions_.empty() || !callers_.empty();
  if (!checks_leases_) return;  // until an agent connects
  lease_timer_.expires_after(options_.lease / kChecksPerLease);
  lease_timer_.async_wait([this](const std::error_code& error) {
    if (!error) check_leases();
  });
}

void CoordinatorServer::Impl::end_silent(TimePoint now) {
  const auto limit = std::chrono::duration_cast<std::chrono::seconds>(options_.lease).count();
  for (const NodeId id : liveness_.silent(now)) lose(id, "no heartbeat for " + std::to_string(limit) + " s");
  std::vector<NodeId> stuck;
  sessions_.for_each([&](NodeId id, const ControlLink& link) {
    if (link.stuck()) stuck.push_back(id);
  });
  for (const NodeId id : stuck) lose(id, "it does not read its messages");
}

void CoordinatorServer::Impl::update_presence() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(leads_, coordinator() != nullptr) && !leads_) led_at_ = Clock::now();
  all_left_ = sessions_.empty() && (!coordinator() || coordinator()->all_notified());
  left_.notify_all();
}

CoordinatorServer::CoordinatorServer(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
CoordinatorServer::~CoordinatorServer() = default;
void CoordinatorServer::lead() {
  impl_->post([this] { impl_->lead(); });
}
void CoordinatorServer::lead(const Succession& succession, TimePoint requested_at) {
  impl_->post([this, succession, requested_at] { impl_->lead(succession, requested_at); });
}
void CoordinatorServer::refer_to(int term, const std::optional<ControlAddress>& coordinator) {
  impl_->post([this, term, coordinator] { impl_->stop_leading(term, coordinator); });
}
void CoordinatorServer::add_listener(const Listening& listening) {
  impl_->post([this, listening] { impl_->listen(listening); });
}
void CoordinatorServer::record_stored(const RecordId& record) {
  impl_->post([this, record] { impl_->record_stored(record); });
}
void CoordinatorServer::set_newest(const RecordId& newest) {
  impl_->post([this, newest] { impl_->set_newest(newest); });
}
void CoordinatorServer::set_job_end(const Outcome& outcome) {
  impl_->post([this, outcome] { impl_->set_job_end(outcome); });
}
void CoordinatorServer::offer_store(int round, const StoreGateway& store) {
  impl_->post([this, round, store] { impl_->offer_store(round, store); });
}
TimePoint CoordinatorServer::led_at() const { return impl_->led_at(); }
bool CoordinatorServer::wait_until_left(std::chrono::milliseconds most) { return impl_->wait_until_left(most); }

}  // namespace ddprun::rendezvous
