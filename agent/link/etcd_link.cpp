#include "agent/link/etcd_link.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>
#include <utility>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "agent/etcd/etcd_job.h"
#include "agent/link/link_parts.h"
#include "agent/process/files/regular_file.h"
#include "rendezvous/base/duration_text.h"
#include "rendezvous/coordination/server/coordinator_client.h"
#include "rendezvous/coordination/server/coordinator_probes.h"
#include "rendezvous/coordination/server/coordinator_server.h"
#include "rendezvous/etcd/etcd_election.h"
#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/peer/loopback.h"

namespace ddprun::agent {
namespace {

constexpr rendezvous::ListenPurpose kAgentsPort{"the agent", "--control-port"};
constexpr const char* kSelf = "127.0.0.1";
constexpr std::chrono::seconds kToldAfter{3};  // without an answer of etcd: its leader may change
constexpr std::chrono::seconds kEndLimit{3};   // for etcd to remove the keys
constexpr Duration kNextCoordinator = rendezvous::kEtcdKeyLease + rendezvous::kLeaseMargin;
constexpr std::chrono::seconds kStuckTick{1};

// Two agents of one machine and one network have the same one.
std::string this_host() {
  std::error_code none;
  const std::string network = std::filesystem::read_symlink("/proc/self/ns/net", none).string();
  std::string boot = beginning_of_file("/proc/sys/kernel/random/boot_id", 64);
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  return network.empty() || boot.empty() ? "" : boot + " " + network;
}

// When this coordinator was in charge by what etcd has answered: for the server's thread.
struct Outside {
  std::atomic<TimePoint> contact = TimePoint();
};

// Every agent listens for the others and may become the coordinator.
class EtcdLink : public Coordination {
 public:
  EtcdLink(asio::io_context& io, asio::io_context& loop, const rendezvous::RoundPolicy& policy, const Meeting& meeting,
           std::function<Duration()> loop_stood, Hooks hooks)
      : io_(io),
        policy_(policy),
        meeting_(meeting),
        trust_(new_trust()),
        loop_side_{loop, {new_trust().tls, trust_.own, {}}},
        loop_stood_(std::move(loop_stood)),
        hooks_(std::move(hooks)),
        election_(node(), static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()),
                  {.silent_round = meeting.etcd->silent_round}, this_host(), trust_.tls->mark()),
        job_(io, meeting.etcd, meeting.run_id,
             {[this](const rendezvous::EtcdKeys& seen) { elect(rendezvous::HolderSeen{seen}); },
              [this](const std::string& why, bool lasting) { on_trouble(why, lasting); }, [this] { trouble_.clear(); },
              hooks_.log}),
        election_timer_(io),
        probes_(io, [this](rendezvous::NodeId node) { elect(rendezvous::NodeGone{node}); }) {
    policy_.record_outside = true;
    for (const rendezvous::PeerTrust* trust : {&trust_, &loop_side_.trust})
      if (!trust->tls->plain()) trust->tls->prepare();  // reads its files
    listen();
  }

  void start() override { schedule_election(); }

  bool send(const rendezvous::FromAgent& message) override { return client_ && client_->send(message); }
  bool connected() const override { return client_ && client_->connected(); }
  void cut(Duration time) override {
    if (client_) client_->cut(time);
  }
  rendezvous::NodeId node() const override { return trust_.own.instance; }
  void offer_store(int round, const rendezvous::StoreGateway& store) override { server_->offer_store(round, store); }
  std::unique_ptr<rendezvous::StoreDialer> dial_store(const rendezvous::Seat& seat,
                                                      const rendezvous::StoreUpstream& proxy) override {
    return loop_side_.dial_store(seat, proxy);
  }
  std::unique_ptr<rendezvous::LinkDialer> dial_copies(const rendezvous::ControlAddress& agent,
                                                      rendezvous::LinkDialer::Hooks hooks) override {
    return loop_side_.dial_copies(agent, std::move(hooks));
  }
  bool may_leave() const override { return end_.may_leave(); }

  // A coordinator that runs here goes on until it has handed over, or all know the job's end.
  void leave() override {
    left_ = true;
    client_.reset();
    if (!election_.leads()) return void(election_timer_.cancel());
    keys_let_go_ = false;
    if (end_.outcome) let_keys_go(election_.last_act());
  }
  bool all_left(std::chrono::milliseconds most) override { return server_->wait_until_left(most) && keys_let_go_; }

 private:
  template <class Function>
  auto while_alive(Function function) {
    return [alive = std::weak_ptr<const int>(alive_), function = std::move(function)](const auto&... arguments) {
      if (!alive.expired()) function(arguments...);
    };
  }
  // What the server has posted may run after our destruction.
  template <class Function>
  void post_back(Function function) {
    asio::post(io_, while_alive(std::move(function)));
  }

  // A TLS context must be used by one thread only.
  rendezvous::PeerTrust new_trust() const {
    return {std::make_shared<rendezvous::TlsContext>(meeting_.credentials, meeting_.run_id),
            rendezvous::make_identity(meeting_.name, meeting_.run_id),
            {}};
  }

  void listen() {
    const rendezvous::Listening listening = rendezvous::open_listener("", meeting_.control_port, kAgentsPort);
    port_ = listening.port;
    server_ = std::make_unique<rendezvous::CoordinatorServer>(rendezvous::CoordinatorServer::Options{
        .listening = listening,
        .trust = new_trust(),
        .fingerprint = meeting_.fingerprint,
        .policy = policy_,
        .self = node(),
        .log = hooks_.log,
        .on_vote_request = [](const auto&, const auto&) {},
        .on_announcement = [](const auto&, const auto&) {},
        .on_request =
            [this](const std::string& line, const std::function<void(const std::string&)>& answer) {
              post_back([this, line, answer] {
                if (hooks_.on_request) hooks_.on_request(line, answer);
              });
            },
        .on_ledger = hooks_.on_ledger,
        .on_copies = copies_hook(),
        .reached_by = meeting_.address,
        .on_record =
            [this](const rendezvous::Round& record, const rendezvous::Outcome* over) {
              const std::optional<rendezvous::Outcome> end = over ? std::optional(*over) : std::nullopt;
              post_back([this, record, end] { elect(rendezvous::RecordChanged{record, end}); });
            },
        .outside_contact = [outside = outside_] { return outside->contact.load(); },
        .on_stepped_down = [this] { post_back([this] { elect(rendezvous::SteppedDown{}); }); }});
  }

  std::function<void(rendezvous::ReleasedPeer)> copies_hook() {
    if (!hooks_.on_copies) return {};
    return [this](rendezvous::ReleasedPeer peer) {
      const auto shared = std::make_shared<rendezvous::ReleasedPeer>(std::move(peer));
      post_back([this, shared] { hooks_.on_copies(std::move(*shared)); });
    };
  }

  // Where the others reach this agent, the most likely address first.
  std::vector<rendezvous::ControlAddress> own_places() const {
    std::vector<rendezvous::ControlAddress> out;
    const std::string towards_etcd = job_.local_address();
    if (!meeting_.address.empty()) out.push_back({meeting_.address, port_});
    if (!towards_etcd.empty() && !rendezvous::is_loopback(towards_etcd)) out.push_back({towards_etcd, port_});
    if (out.empty()) out = {{kSelf, port_}, {meeting_.name, port_}};
    return out;
  }

  // Until etcd has answered there is nobody to connect to.
  void connect_to(const std::vector<rendezvous::ControlAddress>& places) {
    if (places.empty()) return;
    if (!client_)
      client_ = std::make_unique<rendezvous::CoordinatorClient>(
          io_,
          rendezvous::CoordinatorClient::Options{
              places, trust_, {meeting_.fingerprint, port_, newest_, meeting_.instead_of}, {}, loop_stood_},
          rendezvous::CoordinatorClient::Hooks{
              [this](const rendezvous::Welcome& welcome) { on_welcome(welcome); },
              [this](const rendezvous::ToAgent& message) { on_message(message); },
              [this](const rendezvous::Elsewhere& referral) { on_elsewhere(referral); },
              [this] { hooks_.on_isolated(); },
              [this](const rendezvous::CoordinatorClient::Failure& failure) { on_connection_failure(failure); }});
    client_->set_places(places);
    client_->connect_to(places.front());
  }

  void on_welcome(const rendezvous::Welcome& welcome) {
    in_job_ = true;
    probes_.stop_all();
    elect(rendezvous::HolderConnected{welcome.coordinator, welcome.term});
    if (welcome.coordinator != node()) server_->refer_to(welcome.term, client_->coordinator());
    end_.deadline = TimePoint::max();
    if (end_.outcome) return void(client_->send(rendezvous::JobWasOver{node(), *end_.outcome}));
    hooks_.on_connected();
  }

  void on_message(const rendezvous::ToAgent& message) {
    if (const auto* kept = std::get_if<rendezvous::KeepRecord>(&message)) {
      client_->set_fallback_places(first_places(kept->record.nodes));
      if (!kept->record.find(node())) on_round(kept->record.id(), -1);
      return;
    }
    if (std::holds_alternative<rendezvous::KeepRange>(message)) return;  // etcd has it
    if (const auto* seat = std::get_if<rendezvous::TakeSeat>(&message))
      on_round({seat->term, seat->seat.round}, seat->seat.group_rank);
    if (std::holds_alternative<rendezvous::AllNotified>(message)) end_.all_notified = true;
    if (const auto* end = std::get_if<rendezvous::EndJob>(&message); end && end->for_all && !on_job_end(end->outcome))
      return;
    hooks_.on_message(message);
  }

  // Called before the seat is confirmed.
  void on_round(const rendezvous::RecordId& id, int group_rank) {
    newest_ = std::max(newest_, id);
    client_->set_record(newest_);
    server_->set_newest(newest_);
    elect(rendezvous::RoundSeen{id, group_rank});
  }

  // False: it was known already.
  bool on_job_end(const rendezvous::Outcome& outcome) {
    if (client_) client_->send(rendezvous::NodeNotified{node()});
    if (end_.outcome) return false;
    end_.outcome = outcome;
    server_->set_job_end(outcome);
    if (!connected()) end_.set_deadline(kNextCoordinator);
    return true;
  }

  void on_connection_failure(const rendezvous::CoordinatorClient::Failure& failure) {
    if (end_.outcome) end_.set_deadline(kNextCoordinator);
    elect(rendezvous::HolderDisconnected{failure.gone, std::max(client_->heard_at(), server_->led_at())});
    if (end_.outcome || !client_) return;
    hooks_.on_unreachable(unreachable(failure.why), false, Clock::now());
  }

  // The same text for each of the coordinator's addresses.
  std::string unreachable(const std::string& why) const {
    if (!trouble_.empty()) return "etcd: " + trouble_;
    if (election_.waits_for_silence())
      return why + "; the job's last round may still run: another one begins once nothing has been heard of it for " +
             duration_text(std::chrono::duration<double>(meeting_.etcd->silent_round).count()) + " (silent_round)";
    const rendezvous::EtcdHolder* named = election_.missed();
    if (!named) return why;
    const std::size_t reason = why.find(": ");
    return named->name + ", which etcd names as coordinator" + (reason == std::string::npos ? "" : why.substr(reason));
  }

  // Another node may know the coordinator though etcd is out of reach.
  void on_elsewhere(const rendezvous::Elsewhere& referral) {
    if (referral.coordinator && referral.term >= newest_.term && referral.coordinator != client_->coordinator())
      client_->on_referral(*referral.coordinator);
  }

  void elect(const rendezvous::EtcdEvent& event) {
    if (is_done()) return;
    for (const rendezvous::EtcdAction& action : election_.on(event, Clock::now()))
      std::visit([this](const auto& a) { carry_out(a); }, action);
    outside_->contact = election_.contact();
    schedule_election();
  }

  bool is_done() const { return lets_keys_go_ || (left_ && !election_.leads()); }

  // An answer that never came says so.
  template <class Answer>
  auto answer_to(rendezvous::EtcdRequest request) {
    return [this, request](const std::optional<Answer>& answer) {
      if (answer) {
        on_answered_request(request);
        return elect(*answer);
      }
      on_failed_request(request);
      elect(rendezvous::RequestFailed{request});
    };
  }

  void carry_out(const rendezvous::ReadKeys&) {
    job_.read(answer_to<rendezvous::KeysRead>(rendezvous::EtcdRequest::read));
  }
  void carry_out(const rendezvous::ClaimKey& action) {
    rendezvous::ClaimKey claim = action;
    claim.holder.name = meeting_.name;
    claim.holder.places = own_places();
    job_.claim(claim, answer_to<rendezvous::ClaimAnswered>(rendezvous::EtcdRequest::claim));
  }
  void carry_out(const rendezvous::RenewLease& action) {
    job_.renew(action.fence, answer_to<rendezvous::RenewalAnswered>(rendezvous::EtcdRequest::renewal));
  }
  void carry_out(const rendezvous::StoreRecord& action) {
    job_.store(action, answer_to<rendezvous::StoreAnswered>(rendezvous::EtcdRequest::store));
  }
  void carry_out(const rendezvous::ReleaseKey& action) {
    left_ ? let_keys_go({action.fence, action.holder}) : job_.release(action);
  }
  // A renewal that is under way must not claim the key again.
  void let_keys_go(const rendezvous::LastAct& act) {
    lets_keys_go_ = true;
    election_timer_.cancel();
    job_.end(act, kEndLimit, [this] { keys_let_go_ = true; });
  }
  void carry_out(const rendezvous::RecordStored& action) { server_->record_stored(action.id); }

  void carry_out(const rendezvous::LeadJob& action) {
    rendezvous::Succession from = action.from;
    from.over = end_.outcome;
    if (action.begins) from.record.ledger = policy_.earlier_starts;
    outside_->contact = election_.contact();
    probes_.stop_all();
    server_->lead(from, Clock::now());
    connect_to({{kSelf, port_}});
  }
  void carry_out(const rendezvous::StopLeading& action) { server_->refer_to(action.term, {}); }
  void carry_out(const rendezvous::FollowHolder& action) { connect_to(action.places); }
  void carry_out(const rendezvous::LookForNodes& action) {
    probes_.stop_all();
    Duration in = {};
    for (const rendezvous::RoundNode& node : action.nodes)
      probes_.start(node.id, node.control, in += std::chrono::seconds(1) / rendezvous::kProbesPerSecond);
    connect_to(first_places(action.nodes));
  }
  void carry_out(const rendezvous::LearnEnd& action) {
    if (on_job_end(action.outcome)) hooks_.on_message(rendezvous::EndJob{action.outcome, true});
    end_.all_notified = true;  // who comes reads it, too
  }
  void carry_out(const rendezvous::WrongMark&) {
    const std::string why =
        "the job " + meeting_.run_id +
        " at etcd has another token: pass the one that its nodes have (--token-file)"
        ", or another --rdzv-id; if none of them runs any more, remove its keys (etcdctl del --prefix " +
        keys_of_job(meeting_.etcd->prefix, meeting_.run_id).all + ")";
    hooks_.on_message(rendezvous::EndJob{{rendezvous::Verdict::refused, 0, why, {}}, false});
  }
  void carry_out(const rendezvous::KeysAreGone&) {
    if (!end_.outcome)
      hooks_.on_no_coordinator("the coordinating node is gone, and etcd knows nothing of the job any more", false);
  }

  void schedule_election() {
    const auto due = election_.next_deadline();
    if (!due || is_done()) return void(election_timer_.cancel());
    const bool stuck = client_ && client_->stuck();  // then it does not stand for election
    election_timer_.expires_at(stuck ? Clock::now() + kStuckTick : *due);
    election_timer_.async_wait([this, stuck](const asio::error_code& error) {
      if (error) return;
      if (stuck) return schedule_election();
      elect(rendezvous::EtcdTick{});
    });
  }

  // A node that is not in the job yet is told at once what cannot mend by itself.
  void on_trouble(const std::string& why, bool lasting) {
    if (left_) return;
    trouble_ = why;
    if (!in_job_ && lasting)
      return hooks_.on_message(rendezvous::EndJob{{rendezvous::Verdict::refused, 0, "etcd: " + why, {}}, false});
    if (!connected()) hooks_.on_unreachable("etcd: " + why, false, Clock::now());
  }

  // etcd may answer all but one kind: it stores nothing where it is full.
  void on_failed_request(rendezvous::EtcdRequest request) {
    Failing& failing = request == rendezvous::EtcdRequest::store ? stores_ : others_;
    const TimePoint now = Clock::now();
    if (!failing.since) failing.since = now;
    if (left_ || !election_.leads() || now - *failing.since < kToldAfter || std::exchange(failing.told, true)) return;
    if (stores_.told && others_.told) return;
    hooks_.log("etcd does not take the job's record (" + trouble_ +
               "): a round that runs goes on; no other one begins until it does");
  }

  void on_answered_request(rendezvous::EtcdRequest request) {
    const Failing before = std::exchange(request == rendezvous::EtcdRequest::store ? stores_ : others_, {});
    if (before.told && !stores_.told && !others_.told)
      hooks_.log("etcd answers again, after " +
                 duration_text(std::chrono::duration<double>(Clock::now() - *before.since).count()));
  }

  asio::io_context& io_;
  rendezvous::RoundPolicy policy_;
  Meeting meeting_;
  rendezvous::PeerTrust trust_;
  LoopSide loop_side_;
  const std::function<Duration()> loop_stood_;
  Hooks hooks_;
  std::uint16_t port_ = 0;  // where this agent listens
  rendezvous::RecordId newest_;
  JobEnd end_;
  bool left_ = false, lets_keys_go_ = false;
  std::atomic<bool> keys_let_go_ = true;
  bool in_job_ = false;  // it was connected to a coordinator
  std::string trouble_;  // empty: etcd has answered the last request
  struct Failing {       // requests of one kind
    std::optional<TimePoint> since = {};
    bool told = false;
  } stores_, others_;
  // What the server's thread has posted looks at it, so it outlives the server.
  std::shared_ptr<const int> alive_ = std::make_shared<int>();
  const std::shared_ptr<Outside> outside_ = std::make_shared<Outside>();
  rendezvous::EtcdElection election_;
  EtcdJob job_;
  asio::steady_timer election_timer_;
  rendezvous::CoordinatorProbes probes_;  // of LookForNodes
  std::unique_ptr<rendezvous::CoordinatorServer> server_;
  std::unique_ptr<rendezvous::CoordinatorClient> client_;
};

}  // namespace

std::unique_ptr<Coordination> make_etcd_link(asio::io_context& link, asio::io_context& loop,
                                             const rendezvous::RoundPolicy& policy, const Meeting& meeting,
                                             std::function<Duration()> loop_stood, Coordination::Hooks hooks) {
  return std::make_unique<EtcdLink>(link, loop, policy, meeting, std::move(loop_stood), std::move(hooks));
}

}  // namespace ddprun::agent
