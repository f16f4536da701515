#include "agent/link/job_link.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "agent/link/link_parts.h"
#include "agent/link/own_place.h"
#include "agent/link/place_check.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/overloaded.h"
#include "rendezvous/coordination/election/first_place.h"
#include "rendezvous/coordination/server/coordinator_client.h"
#include "rendezvous/coordination/server/coordinator_server.h"
#include "rendezvous/coordination/server/election_rpc.h"
#include "rendezvous/peer/listen_socket.h"

namespace ddprun::agent {
namespace {

constexpr rendezvous::ListenPurpose kElsewhere{"the agent", "--control-port"};
constexpr const char* kThisHost = "127.0.0.1";
constexpr std::chrono::seconds kOwnPlaceLimit{2};  // for another agent that has our place to answer
constexpr std::chrono::seconds kStuckPause{1};

std::uint64_t clock_seed() { return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()); }

// Every agent listens for the others and may become the coordinator.
class JobLink : public Coordination {
 public:
  JobLink(asio::io_context& io, asio::io_context& loop, const rendezvous::RoundPolicy& policy, const Meeting& meeting,
          std::function<Duration()> loop_stood, Hooks hooks)
      : io_(io),
        trust_{std::make_shared<rendezvous::TlsContext>(meeting.credentials, meeting.run_id),
               rendezvous::make_identity(meeting.name, meeting.run_id),
               {}},
        loop_side_{loop,
                   {std::make_shared<rendezvous::TlsContext>(meeting.credentials, meeting.run_id), trust_.own, {}}},
        meeting_(meeting),
        loop_stood_(std::move(loop_stood)),
        hooks_(std::move(hooks)),
        own_place_(io, {meeting.places, meeting.whose, meeting.others_may_host, names_},
                   {[this](const rendezvous::Listening& listening) { add_listener(listening); },
                    [this] { report_held_place(); }}),
        first_place_(meeting.places.size()),
        election_(trust_.own.instance, clock_seed()),
        election_timer_(io) {
    for (const rendezvous::PeerTrust* trust : {&trust_, &loop_side_.trust})
      if (!trust->tls->plain()) trust->tls->prepare();  // reads its files
    listen(policy);
  }

  void start() override {
    client_ = std::make_unique<rendezvous::CoordinatorClient>(
        io_,
        rendezvous::CoordinatorClient::Options{
            meeting_.places, trust_, {meeting_.fingerprint, listens_.port, {}, meeting_.instead_of}, {}, loop_stood_},
        rendezvous::CoordinatorClient::Hooks{
            [this](const rendezvous::Welcome& welcome) { connected(welcome); },
            [this](const rendezvous::ToAgent& message) { on_message(message); },
            [this](const rendezvous::Elsewhere& referral) { on_elsewhere(referral); }, [this] { hooks_.on_isolated(); },
            [this](const rendezvous::CoordinatorClient::Failure& failure) { on_connection_failure(failure); }});
    rpc_ = std::make_unique<rendezvous::ElectionRpc>(
        io_, names_, trust_, [this](rendezvous::NodeId voter, const rendezvous::Vote& vote) { on_vote(voter, vote); },
        [this](rendezvous::NodeId node) { elect(rendezvous::NodeDead{node}); });
    lead_if_first();
    look_for_own_place();
    if (meeting_.translated) reach_ourselves();
  }

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

  void leave() override {
    own_place_.stop();
    listens_.check.reset();
    client_.reset();  // rpc_ stays: nodes that receive its announcements can still learn of the end
    election_timer_.cancel();
  }
  bool all_left(std::chrono::milliseconds most) override { return server_->wait_until_left(most); }

 private:
  using Answer = std::function<void(const rendezvous::Vote&)>;

  // What the server has posted may run after our destruction.
  template <class Function>
  auto while_alive(Function function) {
    return [alive = std::weak_ptr<const int>(alive_), function = std::move(function)] {
      if (!alive.expired()) function();
    };
  }

  // The server has a loop and a TLS context of its own: a TLS context must be used by one thread only.
  void listen(const rendezvous::RoundPolicy& policy) {
    const std::optional<rendezvous::Listening> at_own_place = own_place_.listen();
    const rendezvous::Listening listening =
        at_own_place ? *at_own_place : open_listener("", meeting_.control_port, kElsewhere);
    if (own_place_.place() == 0u) first_place_.take();
    listens_.port = listening.port;
    const rendezvous::PeerTrust trust{std::make_shared<rendezvous::TlsContext>(meeting_.credentials, meeting_.run_id),
                                      rendezvous::make_identity(meeting_.name, meeting_.run_id),
                                      {}};
    server_ = std::make_unique<rendezvous::CoordinatorServer>(rendezvous::CoordinatorServer::Options{
        listening, trust, meeting_.fingerprint, policy, node(), rendezvous::kLease, rendezvous::kLoopLimit, hooks_.log,
        [this](const rendezvous::VoteRequest& request, const Answer& answer) {
          asio::post(io_, while_alive([this, request, answer] { on_vote_request(request, answer); }));
        },
        [this](const rendezvous::CoordinatorAnnouncement& announcement, const rendezvous::ControlAddress& coordinator) {
          asio::post(io_,
                     while_alive([this, announcement, coordinator] { on_announcement(announcement, coordinator); }));
        },
        [this](const std::string& line, const std::function<void(const std::string&)>& answer) {
          asio::post(io_, while_alive([this, line, answer] {
                       if (hooks_.on_request) hooks_.on_request(line, answer);
                     }));
        },
        hooks_.on_ledger, copies_hook(), meeting_.translated ? meeting_.places.front().host : ""});
    listens_.instance = trust.own.instance;
  }

  // We know that we listen there, and some translations do not work from inside.
  void reach_ourselves() {
    client_->connect_to({kThisHost, listens_.port});
    listens_.check = std::make_unique<PlaceCheck>(
        io_, PlaceCheck::Options{meeting_.places.front(), listens_.instance, names_}, trust_,
        [this](const std::string& why) {
          const auto& [host, port] = meeting_.places.front();
          hooks_.log(host + " is not an address of " + meeting_.name + ", and does not lead here so far (" + why +
                     "): other nodes will look for this one there, at port " + std::to_string(port));
        });
  }

  std::function<void(rendezvous::ReleasedPeer)> copies_hook() {
    if (!hooks_.on_copies) return {};
    return [this](rendezvous::ReleasedPeer peer) {
      const auto shared = std::make_shared<rendezvous::ReleasedPeer>(std::move(peer));
      asio::post(io_, while_alive([this, shared] { hooks_.on_copies(std::move(*shared)); }));
    };
  }

  void add_listener(const rendezvous::Listening& listening) {
    server_->add_listener(listening);
    if (own_place_.place() == 0u) first_place_.take();
    lead_if_first();
  }

  // Only once no other agent of the job seems to have it.
  void report_held_place() {
    if (client_->connected() || search_.met) return;
    if (search_.failure.empty() && Clock::now() - own_place_.held_since() < kOwnPlaceLimit) return;
    hooks_.on_unreachable(describe(search_.failure.empty() ? "nobody answers" : search_.failure), true, Clock::now());
  }

  std::string describe(const std::string& failure) const {
    if (!own_place_.why_not().empty())
      return failure + "; this node would listen there, but " + own_place_.why_not() + ", and tries again";
    return meeting_.address_problem.empty() || search_.met ? failure : failure + "; " + meeting_.address_problem;
  }

  std::vector<rendezvous::ControlAddress> other_places() const {
    std::vector<rendezvous::ControlAddress> out = meeting_.places;
    if (const auto own = own_place_.place()) out.erase(out.begin() + static_cast<std::ptrdiff_t>(*own));
    return out;
  }

  void connected(const rendezvous::Welcome& welcome) {
    own_place_.stop();
    search_.own_place = false;
    first_place_.connected();
    elect(rendezvous::CoordinatorConnected{welcome.term});
    if (welcome.coordinator == node()) {
      if (leads_.term == welcome.term && !leads_.announcing) announce_leadership(welcome.term);
    } else {
      stop_announcing();
      server_->refer_to(welcome.term, client_->coordinator());
    }
    end_.deadline = TimePoint::max();
    if (end_.outcome) return void(client_->send(rendezvous::JobWasOver{node(), *end_.outcome}));
    hooks_.on_connected();
  }

  void on_message(const rendezvous::ToAgent& message) {
    if (const auto* kept = std::get_if<rendezvous::KeepRecord>(&message)) {
      record_ = kept->record;
      set_fallback_places(*record_);
      if (record_->previous_electorates.empty())
        elect(rendezvous::RecordConfirmed{record_->id(), record_->find(node()) != nullptr});
      return;
    }
    if (const auto* keep = std::get_if<rendezvous::KeepRange>(&message)) {
      if (record_ && record_->id() == keep->record) record_->resized = keep->range;
      return elect(rendezvous::RecordResized{keep->record, keep->range});
    }
    if (const auto* seat = std::get_if<rendezvous::TakeSeat>(&message)) on_record({seat->term, seat->seat.round});
    if (const auto* start = std::get_if<rendezvous::StartRound>(&message)) elect(rendezvous::RoundBegan{start->round});
    if (std::holds_alternative<rendezvous::AllNotified>(message)) end_.all_notified = true;
    if (const auto* end = std::get_if<rendezvous::EndJob>(&message); end && end->for_all && !on_job_end(end->outcome))
      return;
    hooks_.on_message(message);
  }

  // False: it was known already.
  bool on_job_end(const rendezvous::Outcome& outcome) {
    client_->send(rendezvous::NodeNotified{node()});
    if (end_.outcome) return false;
    end_.outcome = outcome;
    server_->set_job_end(outcome);
    if (!client_->connected()) end_.set_deadline();
    return true;
  }

  void on_vote(rendezvous::NodeId voter, const rendezvous::Vote& vote) {
    if (client_ && vote.over && on_job_end(*vote.over)) hooks_.on_message(rendezvous::EndJob{*vote.over, true});
    elect(rendezvous::VoteGiven{voter, vote});
  }

  // Also after we have left and run for the others only.
  void on_vote_request(const rendezvous::VoteRequest& request, const Answer& answer) {
    if (client_) return elect(rendezvous::VoteRequested{request}, answer);
    if (end_.outcome) send_vote({.term = election_.term(), .voter = node()}, answer);
  }

  void send_vote(rendezvous::Vote vote, const Answer& answer) const {
    vote.over = end_.outcome;
    answer(vote);
  }

  // Called before the seat is confirmed.
  void on_record(const rendezvous::RecordId& id) {
    if (record_ && record_->id() != id) record_.reset();
    elect(rendezvous::RecordKept{id, record_});
    client_->set_record(id);
    if (!record_) client_->set_fallback_places({});
  }

  void set_fallback_places(const rendezvous::Round& record) {
    client_->set_fallback_places(first_places(record.nodes));
  }

  void on_connection_failure(const rendezvous::CoordinatorClient::Failure& failure) {
    if (end_.outcome) end_.set_deadline();
    elect(rendezvous::CoordinatorDisconnected{failure.gone, std::max(client_->heard_at(), server_->led_at())});
    if (end_.outcome) return;
    first_place_.on_failed_attempt(failure.known, Clock::now());
    lead_if_first();
    look_for_own_place();
    search_.failure = failure.why;
    if (client_) hooks_.on_unreachable(describe(failure.why), false, Clock::now());
  }

  void lead_if_first() {
    if (first_place_.should_begin(election_.newest(), Clock::now())) server_->lead();
  }

  // Until we are connected.
  void look_for_own_place() {
    if (client_ && !std::exchange(search_.own_place, true)) own_place_.keep_trying();
  }

  void on_elsewhere(const rendezvous::Elsewhere& referral) {
    search_.met = true;
    if (referral.coordinator && election_.would_follow(referral.term) && referral.coordinator != client_->coordinator())
      client_->on_referral(*referral.coordinator);
  }

  void on_announcement(const rendezvous::CoordinatorAnnouncement& announcement,
                       const rendezvous::ControlAddress& coordinator) {
    if (client_) elect(rendezvous::CoordinatorAnnounced{announcement.term}, {}, coordinator);
  }

  void elect(const rendezvous::ElectionEvent& event, const Answer& answer = {},
             const rendezvous::ControlAddress& announced_by = {}) {
    if (!client_) return;  // we have left
    for (const rendezvous::ElectionAction& action : election_.on(event, Clock::now()))
      std::visit(overloaded{
                     [&](const rendezvous::AskForVotes& a) {
                       leads_.announcing = false;
                       rpc_->request_votes(a.request);
                     },
                     [&](const rendezvous::GiveVote& a) { send_vote(a.vote, answer); },
                     [&](const rendezvous::Lead& a) { lead(a); },
                     [&](const rendezvous::Follow&) { follow(announced_by); },
                     [&](const rendezvous::GiveUp& a) { give_up(a.certain); },
                 },
                 action);
    if (std::exchange(leads_.reported, election_.newest()) != election_.newest())
      server_->set_newest(election_.newest());
    schedule_election();
  }

  void give_up(bool certain) {
    if (end_.outcome && election_.is_alone()) end_.deadline = Clock::now();
    if (end_.outcome || client_->stuck() || std::exchange(leads_.given_up, true)) return;
    const char* certainly = "the coordinating node is gone, and the remaining nodes cannot elect another";
    const char* maybe = "the coordinating node is gone or unreachable: the remaining nodes cannot tell which";
    hooks_.on_no_coordinator(certain ? certainly : maybe, certain);
  }

  void schedule_election() {
    const auto due = election_.next_deadline();
    if (!due) return void(election_timer_.cancel());
    const bool stuck = client_->stuck();  // then it may vote, and does not stand
    election_timer_.expires_at(stuck ? Clock::now() + kStuckPause : *due);
    election_timer_.async_wait([this, stuck](const asio::error_code& error) {
      if (error) return;
      if (stuck) return schedule_election();
      elect(rendezvous::ElectionTick{});
    });
  }

  void lead(const rendezvous::Lead& won) {
    server_->lead({won.term, won.record, won.heard_at + rendezvous::kLease + rendezvous::kLeaseMargin, won.record_age,
                   end_.outcome},
                  won.requested_at);
    client_->connect_to({kThisHost, listens_.port});
    leads_.term = won.term;
    announce_leadership(won.term);
  }

  // Repeated after a failed election, which ends the announcements: agents that start at a place get them as long as we
  // lead.
  void announce_leadership(int term) {
    leads_.announcing = true;
    rpc_->announce({term, listens_.port}, other_places());
  }

  void stop_announcing() {
    leads_.announcing = false;
    rpc_->close_all();
  }

  void follow(const rendezvous::ControlAddress& coordinator) {
    stop_announcing();
    server_->refer_to(election_.term(), coordinator);
    client_->connect_to(coordinator);
  }

  asio::io_context& io_;
  const std::shared_ptr<rendezvous::Resolver> names_ = std::make_shared<rendezvous::Resolver>(io_);
  rendezvous::PeerTrust trust_;
  LoopSide loop_side_;
  Meeting meeting_;
  const std::function<Duration()> loop_stood_;
  Hooks hooks_;
  OwnPlace own_place_;
  struct {
    std::uint16_t port = 0;
    std::uint64_t instance = 0;         // with which the server greets
    std::unique_ptr<PlaceCheck> check;  // of a translated place
  } listens_;
  rendezvous::FirstPlace first_place_;
  rendezvous::Election election_;
  struct {
    int term = 0;  // the last one we were elected in
    bool announcing = false;
    bool given_up = false;
    rendezvous::RecordId reported = {};  // newest round that the server knows
  } leads_;
  JobEnd end_;
  asio::steady_timer election_timer_;
  std::optional<rendezvous::Round> record_;  // the coordinator's last one
  struct {                                   // for the coordinator
    bool own_place = false;                  // we listen there as soon as we can
    bool met = false;                        // another agent of the job, at a place
    std::string failure;                     // the last one
  } search_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // outlives the server, whose thread looks at it
  std::unique_ptr<rendezvous::CoordinatorServer> server_;
  std::unique_ptr<rendezvous::CoordinatorClient> client_;
  std::unique_ptr<rendezvous::ElectionRpc> rpc_;
};

}  // namespace

std::unique_ptr<Coordination> make_job_link(asio::io_context& link, asio::io_context& loop,
                                            const rendezvous::RoundPolicy& policy, const Meeting& meeting,
                                            std::function<Duration()> loop_stood, Coordination::Hooks hooks) {
  return std::make_unique<JobLink>(link, loop, policy, meeting, std::move(loop_stood), std::move(hooks));
}

}  // namespace ddprun::agent
