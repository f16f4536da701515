#include "agent/coordination.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "agent/own_place.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/overloaded.h"
#include "rendezvous/coordination/coordinator_server.h"
#include "rendezvous/coordination/election_rpc.h"
#include "rendezvous/coordination/first_place.h"
#include "rendezvous/peer/listen_socket.h"

namespace ddprun::agent {
namespace {

constexpr rendezvous::ListenPurpose kElsewhere{"the agent", "--control-port"};
constexpr const char* kThisHost = "127.0.0.1";
constexpr std::chrono::seconds kOwnPlaceLimit{2};  // for another agent that has our place to answer
constexpr std::size_t kOthersToAsk = 8;            // for the coordinator, if it is not at its last address

std::uint64_t clock_seed() { return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()); }

// The message for an order of the coordinator to the only node.
rendezvous::ToAgent as_message(const rendezvous::Order& order) {
  return std::visit(overloaded{
                        [](const rendezvous::FormRound& o) -> rendezvous::ToAgent {
                          return rendezvous::TakeSeat{seats(o.round).front(), o.round.term};
                        },
                        [](const rendezvous::Recall& o) -> rendezvous::ToAgent {
                          return rendezvous::EndRound{o.round, false, ""};
                        },
                        [](const rendezvous::Dismiss& o) -> rendezvous::ToAgent {
                          return rendezvous::EndJob{o.outcome, o.for_all};
                        },
                        [](const rendezvous::HandOver&) -> rendezvous::ToAgent { return rendezvous::Elsewhere{}; },
                        [](const auto& o) -> rendezvous::ToAgent { return o; },
                    },
                    order);
}

class LocalCoordination : public Coordination {
 public:
  LocalCoordination(asio::io_context& io, const rendezvous::RoundPolicy& policy, Hooks hooks)
      : coordinator_(policy, Clock::now(), clock_seed()), deadline_(io), hooks_(std::move(hooks)) {}

  void start() override { hooks_.on_connected(); }

  bool send(const rendezvous::FromAgent& message) override {
    std::visit(overloaded{
                   [](const rendezvous::Hello&) {},
                   [](const rendezvous::Heartbeat&) {},
                   [](const rendezvous::FailureWords&) {},
                   [](const rendezvous::VoteRequest&) {},
                   [](const rendezvous::CoordinatorCall&) {},
                   [&](const auto& m) { tell(m); },
               },
               message);
    return true;
  }

  bool connected() const override { return true; }
  rendezvous::NodeId node() const override { return 0; }
  void offer_store(int, const rendezvous::StoreGateway&) override {}
  std::unique_ptr<rendezvous::StoreDialer> dial_store(const rendezvous::Seat&,
                                                      const rendezvous::StoreUpstream&) override {
    return {};
  }
  bool may_leave() const override { return true; }
  void leave() override {}
  bool all_left(std::chrono::milliseconds) override { return true; }

 private:
  void tell(const rendezvous::Message& message) {
    for (const rendezvous::Order& order : coordinator_.on(message, Clock::now())) hooks_.on_message(as_message(order));
    const auto due = coordinator_.next_deadline();
    if (!due) return void(deadline_.cancel());
    deadline_.expires_at(*due);
    deadline_.async_wait([this](const asio::error_code& error) {
      if (!error) tell(rendezvous::CoordinatorTick{});
    });
  }

  rendezvous::Coordinator coordinator_;
  asio::steady_timer deadline_;
  Hooks hooks_;
};

// Every agent listens for the others and may become the coordinator.
class RemoteCoordination : public Coordination {
 public:
  RemoteCoordination(asio::io_context& io, const rendezvous::RoundPolicy& policy, const Meeting& meeting, Hooks hooks)
      : io_(io),
        trust_{std::make_shared<rendezvous::TlsContext>(meeting.credentials, meeting.run_id),
               rendezvous::make_identity(meeting.name, meeting.run_id),
               {}},
        meeting_(meeting),
        hooks_(std::move(hooks)),
        own_place_(io, {meeting.places, meeting.whose, meeting.others_may_host, names_},
                   {[this](const rendezvous::Listening& listening) { listen_also(listening); },
                    [this] { tell_of_held_place(); }}),
        first_place_(meeting.places.size()),
        election_(trust_.own.instance, clock_seed()),
        election_timer_(io) {
    if (!trust_.tls->plain()) trust_.tls->prepare();
    listen(policy);
  }

  void start() override {
    client_ = std::make_unique<rendezvous::CoordinatorClient>(
        io_,
        rendezvous::CoordinatorClient::Options{
            meeting_.places, trust_, {meeting_.fingerprint, control_port_, {}, meeting_.instead_of}},
        rendezvous::CoordinatorClient::Hooks{
            [this](const rendezvous::Welcome& welcome) { connected(welcome); },
            [this](const rendezvous::ToAgent& message) { hear(message); },
            [this](const rendezvous::Elsewhere& told) { look_elsewhere(told); }, [this] { hooks_.on_isolated(); },
            [this](const rendezvous::CoordinatorClient::Trouble& trouble) { trouble_with(trouble); }});
    rpc_ = std::make_unique<rendezvous::ElectionRpc>(
        io_, names_, trust_, [this](rendezvous::NodeId voter, const rendezvous::Vote& vote) { hear_vote(voter, vote); },
        [this](rendezvous::NodeId node) { elect(rendezvous::NodeDead{node}); });
    lead_if_first();
    look_for_own_place();
  }

  bool send(const rendezvous::FromAgent& message) override { return client_ && client_->send(message); }
  bool connected() const override { return client_ && client_->connected(); }
  rendezvous::NodeId node() const override { return trust_.own.instance; }
  void offer_store(int round, const rendezvous::StoreGateway& store) override { server_->offer_store(round, store); }
  std::unique_ptr<rendezvous::StoreDialer> dial_store(const rendezvous::Seat& seat,
                                                      const rendezvous::StoreUpstream& proxy) override {
    const auto& [host, port] = seat.store_agent;
    return std::make_unique<rendezvous::StoreDialer>(
        io_,
        rendezvous::StoreDialer::Options{
            .host = host, .port = port, .round = seat.round, .trust = trust_, .names = names_},
        proxy);
  }

  bool may_leave() const override { return !end_ || all_told_ || Clock::now() >= leaves_at_; }

  void leave() override {
    own_place_.stop();
    client_.reset();  // rpc_ stays: the nodes it calls can still learn of the end
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
    control_port_ = listening.port;
    const rendezvous::PeerTrust trust{std::make_shared<rendezvous::TlsContext>(meeting_.credentials, meeting_.run_id),
                                      rendezvous::make_identity(meeting_.name, meeting_.run_id),
                                      {}};
    server_ = std::make_unique<rendezvous::CoordinatorServer>(rendezvous::CoordinatorServer::Options{
        listening, trust, meeting_.fingerprint, policy, node(), rendezvous::kLease, hooks_.log,
        [this](const rendezvous::VoteRequest& request, const Answer& answer) {
          asio::post(io_, while_alive([this, request, answer] { give_vote(request, answer); }));
        },
        [this](const rendezvous::CoordinatorCall& call, const rendezvous::ControlAddress& caller) {
          asio::post(io_, while_alive([this, call, caller] { called(call, caller); }));
        }});
  }

  void listen_also(const rendezvous::Listening& listening) {
    server_->listen_also(listening);
    if (own_place_.place() == 0u) first_place_.take();
    lead_if_first();
  }

  // Only once no other agent of the job seems to have it.
  void tell_of_held_place() {
    if (client_->connected() || met_) return;
    if (last_trouble_.empty() && Clock::now() - own_place_.held_since() < kOwnPlaceLimit) return;
    hooks_.on_trouble(in_words(last_trouble_.empty() ? "nobody answers" : last_trouble_), true);
  }

  std::string in_words(const std::string& trouble) const {
    if (!own_place_.why_not().empty())
      return trouble + "; this node would listen there, but " + own_place_.why_not() + ", and tries again";
    return meeting_.odd.empty() || met_ ? trouble : trouble + "; " + meeting_.odd;
  }

  std::vector<rendezvous::ControlAddress> others_places() const {
    std::vector<rendezvous::ControlAddress> out = meeting_.places;
    if (const auto own = own_place_.place()) out.erase(out.begin() + static_cast<std::ptrdiff_t>(*own));
    return out;
  }

  void connected(const rendezvous::Welcome& welcome) {
    own_place_.stop();
    wants_place_ = false;
    first_place_.connected();
    elect(rendezvous::InTouch{welcome.term});
    if (welcome.coordinator == node()) {
      if (led_term_ == welcome.term && !calling_) call_others(welcome.term);
    } else {
      stop_calling();
      server_->refer_to(welcome.term, client_->coordinator());
    }
    leaves_at_ = TimePoint::max();
    if (end_) return void(client_->send(rendezvous::JobWasOver{node(), *end_}));
    hooks_.on_connected();
  }

  void hear(const rendezvous::ToAgent& message) {
    if (const auto* kept = std::get_if<rendezvous::KeepRecord>(&message)) {
      record_ = kept->record;
      return ask_also(*record_);
    }
    if (const auto* seat = std::get_if<rendezvous::TakeSeat>(&message)) keep_record({seat->term, seat->seat.round});
    if (const auto* start = std::get_if<rendezvous::StartRound>(&message)) elect(rendezvous::RoundBegan{start->round});
    if (std::holds_alternative<rendezvous::AllTold>(message)) all_told_ = true;
    if (const auto* end = std::get_if<rendezvous::EndJob>(&message); end && end->for_all && !hear_end(end->outcome))
      return;
    hooks_.on_message(message);
  }

  // False: it was known already.
  bool hear_end(const rendezvous::Outcome& outcome) {
    client_->send(rendezvous::NodeTold{node()});
    if (end_) return false;
    end_ = outcome;
    server_->knows_end(outcome);
    if (!client_->connected()) await_no_longer();
    return true;
  }

  void hear_vote(rendezvous::NodeId voter, const rendezvous::Vote& vote) {
    if (client_ && vote.over && hear_end(*vote.over)) hooks_.on_message(rendezvous::EndJob{*vote.over, true});
    elect(rendezvous::VoteGiven{voter, vote});
  }

  // Also after we have left and run for the others only.
  void give_vote(const rendezvous::VoteRequest& request, const Answer& answer) {
    if (client_) return elect(rendezvous::VoteRequested{request}, answer);
    if (end_) answer_with_end({.term = election_.term(), .voter = node()}, answer);
  }

  void answer_with_end(rendezvous::Vote vote, const Answer& answer) const {
    vote.over = end_;
    answer(vote);
  }

  void await_no_longer() {
    leaves_at_ = std::min(leaves_at_, Clock::now() + rendezvous::kLease + rendezvous::kBeyondLease);
  }

  // Called before the seat is confirmed.
  void keep_record(const rendezvous::RecordId& id) {
    if (record_ && record_->id() != id) record_.reset();
    elect(rendezvous::RecordKept{id, record_});
    client_->set_record(id);
    if (!record_) client_->also_try({});
  }

  void ask_also(const rendezvous::Round& record) {
    std::vector<rendezvous::ControlAddress> others;
    for (std::size_t i = 0; i < std::min(record.nodes.size(), kOthersToAsk); ++i)
      others.push_back(record.nodes[i].control);
    client_->also_try(std::move(others));
  }

  void trouble_with(const rendezvous::CoordinatorClient::Trouble& trouble) {
    if (end_) await_no_longer();
    elect(rendezvous::OutOfTouch{trouble.gone, client_->heard_at()});
    if (end_) return;
    first_place_.asked(trouble.known, Clock::now());
    lead_if_first();
    look_for_own_place();
    last_trouble_ = trouble.why;
    if (client_) hooks_.on_trouble(in_words(trouble.why), false);
  }

  void lead_if_first() {
    if (first_place_.begins(election_.newest(), Clock::now())) server_->lead();
  }

  // Until we are connected.
  void look_for_own_place() {
    if (client_ && !std::exchange(wants_place_, true)) own_place_.keep_trying();
  }

  void look_elsewhere(const rendezvous::Elsewhere& told) {
    met_ = true;
    if (told.coordinator && election_.would_follow(told.term) && told.coordinator != client_->coordinator())
      client_->be_referred_to(*told.coordinator);
  }

  void called(const rendezvous::CoordinatorCall& call, const rendezvous::ControlAddress& caller) {
    if (client_) elect(rendezvous::Called{call.term}, {}, caller);
  }

  void elect(const rendezvous::ElectionEvent& event, const Answer& answer = {},
             const rendezvous::ControlAddress& caller = {}) {
    if (!client_) return;  // we have left
    for (const rendezvous::ElectionAction& action : election_.on(event, Clock::now()))
      std::visit(overloaded{
                     [&](const rendezvous::AskForVotes& a) {
                       calling_ = false;
                       rpc_->ask(a.request);
                     },
                     [&](const rendezvous::GiveVote& a) { answer_with_end(a.vote, answer); },
                     [&](const rendezvous::Lead& a) { lead(a); },
                     [&](const rendezvous::Follow&) { follow(caller); },
                     [&](const rendezvous::GiveUp& a) { give_up(a.certain); },
                 },
                 action);
    if (std::exchange(told_, election_.newest()) != election_.newest()) server_->knows(election_.newest());
    plan_election();
  }

  void give_up(bool certain) {
    if (end_ && election_.is_alone()) leaves_at_ = Clock::now();
    if (end_) return;
    if (std::exchange(given_up_, true)) return;
    const char* certainly =
        "the node that coordinated the job is gone, and those that are left cannot elect another one";
    const char* maybe = "the node that coordinated the job is gone, or out of reach: the others alone cannot know";
    hooks_.on_hopeless(certain ? certainly : maybe, certain);
  }

  void plan_election() {
    const auto due = election_.next_deadline();
    if (!due) return void(election_timer_.cancel());
    election_timer_.expires_at(*due);
    election_timer_.async_wait([this](const asio::error_code& error) {
      if (!error) elect(rendezvous::ElectionTick{});
    });
  }

  void lead(const rendezvous::Lead& won) {
    server_->lead({won.term, won.record, won.heard_at + rendezvous::kLease + rendezvous::kBeyondLease, end_},
                  won.asked_at);
    client_->go_to({kThisHost, control_port_});
    led_term_ = won.term;
    call_others(won.term);
  }

  // Repeated after a failed election, which ends the calls: agents that start at a place are called as long as we lead.
  void call_others(int term) {
    calling_ = true;
    rpc_->call({term, control_port_}, others_places());
  }

  void stop_calling() {
    calling_ = false;
    rpc_->hang_up();
  }

  void follow(const rendezvous::ControlAddress& coordinator) {
    stop_calling();
    server_->refer_to(election_.term(), coordinator);
    client_->go_to(coordinator);
  }

  asio::io_context& io_;
  const std::shared_ptr<rendezvous::Resolver> names_ = std::make_shared<rendezvous::Resolver>(io_);
  rendezvous::PeerTrust trust_;
  Meeting meeting_;
  Hooks hooks_;
  OwnPlace own_place_;
  std::uint16_t control_port_ = 0;
  rendezvous::FirstPlace first_place_;
  rendezvous::Election election_;
  rendezvous::RecordId told_;  // newest round that the server knows
  bool given_up_ = false;
  int led_term_ = 0;  // the last term we were elected in
  bool calling_ = false;
  std::optional<rendezvous::Outcome> end_;  // of the job, for all nodes
  bool all_told_ = false;                   // all nodes know of it
  TimePoint leaves_at_ = TimePoint::max();  // if no coordinator is found after the end
  asio::steady_timer election_timer_;
  std::optional<rendezvous::Round> record_;  // the coordinator's last one
  bool wants_place_ = false;
  bool met_ = false;  // we met another agent of the job at a place
  std::string last_trouble_;
  std::unique_ptr<rendezvous::CoordinatorServer> server_;
  std::unique_ptr<rendezvous::CoordinatorClient> client_;
  std::unique_ptr<rendezvous::ElectionRpc> rpc_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();
};

}  // namespace

std::unique_ptr<Coordination> coordinate_here(asio::io_context& io, const rendezvous::RoundPolicy& policy,
                                              Coordination::Hooks hooks) {
  return std::make_unique<LocalCoordination>(io, policy, std::move(hooks));
}

std::unique_ptr<Coordination> meet(asio::io_context& io, const rendezvous::RoundPolicy& policy, const Meeting& meeting,
                                   Coordination::Hooks hooks) {
  return std::make_unique<RemoteCoordination>(io, policy, meeting, std::move(hooks));
}

}  // namespace ddprun::agent
