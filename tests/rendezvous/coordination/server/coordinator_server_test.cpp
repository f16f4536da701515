#include "rendezvous/coordination/server/coordinator_server.h"

#include <future>

#include "rendezvous/coordination/server/coordinator_client.h"
#include "rendezvous/coordination/server/election_rpc.h"
#include "rendezvous/coordination/wire/copies_opening.h"
#include "rendezvous/peer/link_dialer.h"
#include "tests/rendezvous/store/raw_peer.h"
#include "tests/support/test.h"

namespace {

constexpr auto kLimit = 20s;
const Fingerprint kJob{kControlProtocol, "1.0", "2", "train"};

PeerTrust trust(const std::string& name, const std::string& token = "") {
  Credentials credentials;
  if (!token.empty()) credentials = std::get<Token>(Token::parse(token));
  return {std::make_shared<TlsContext>(std::move(credentials), "my-job"), make_identity(name, "my-job"), {}};
}

// Runs it until that is so, or for so long in vain.
template <class Done>
bool run_until(asio::io_context& io, Done done, Duration limit = kLimit) {
  for (const auto end = Clock::now() + limit; !done() && Clock::now() < end;) {
    io.restart();
    io.run_for(2ms);
  }
  return done();
}

// The server, and a port that it got.
struct Place {
  explicit Place(const RoundPolicy& policy, Duration lease = kLease, const std::string& token = "",
                 std::uint16_t wanted = 0, std::optional<NodeId> self = {}) {
    const Listening listening = open_listener("127.0.0.1", wanted);
    port = listening.port;
    server = std::make_unique<CoordinatorServer>(CoordinatorServer::Options{.listening = listening,
                                                                            .trust = trust("coordinator", token),
                                                                            .fingerprint = kJob,
                                                                            .policy = policy,
                                                                            .self = self,
                                                                            .lease = lease,
                                                                            .loop_limit = lease,
                                                                            .log = [](const std::string&) {}});
    server->lead();
  }

  std::uint16_t port;
  std::unique_ptr<CoordinatorServer> server;
};

// An agent without workers: sends what a test wants it to send, and keeps what it receives. Its own listener shows that
// it lives, as an agent's does.
class Agent {
 public:
  explicit Agent(const Place& place, const std::string& name = "node", Fingerprint job = kJob,
                 const std::string& token = "")
      : Agent(place, trust(name, token), std::move(job)) {}
  Agent(const Place& place, PeerTrust own, Fingerprint job = kJob)
      : listening_(open_listener("127.0.0.1", 0)), name_(own.own.name) {
    client_ = std::make_unique<CoordinatorClient>(
        io_,
        CoordinatorClient::Options{{{"localhost", place.port}},
                                   std::move(own),
                                   Hello{std::move(job), listening_.port, {}},
                                   {},
                                   [this] { return stood; }},
        CoordinatorClient::Hooks{[](const Welcome&) {}, [this](const ToAgent& message) { on_message(message); },
                                 [this](const Elsewhere&) { elsewhere_ = true; }, [this] { isolated_ = true; },
                                 [this](const CoordinatorClient::Failure& failure) { failure_ = failure.why; }});
  }
  ~Agent() { vanish(); }

  template <class Done>
  bool until(Done done) {
    return run_until(io_, done);
  }

  // The next message, which must be of that kind.
  template <class T>
  T receive() {
    INFO(name_ << " waits for a message; last failure: " << failure_);
    REQUIRE(until([&] { return !received_.empty(); }));
    const ToAgent message = received_.front();
    received_.pop_front();
    INFO(encode(message));
    REQUIRE(std::holds_alternative<T>(message));
    return std::get<T>(message);
  }

  Agent& join(int workers = 1) {
    REQUIRE(until([&] { return client_->connected(); }));
    send(NodeReady{0, {.workers = workers, .port = 1000, .name = name_}});
    return *this;
  }
  void send(const FromAgent& message) { REQUIRE(client_->send(message)); }
  void idle(Duration time) {
    io_.restart();
    io_.run_for(time);
  }

  // As a process that dies: its connection and its listener are closed.
  void vanish() {
    client_.reset();
    if (listening_.fd >= 0) close(std::exchange(listening_.fd, -1));
    idle(1ms);
  }
  void disconnect() { client_.reset(); }  // it lives, and does not come back

  const std::optional<Attendance>& attendance() const { return attendance_; }
  bool has_received_nothing() const { return received_.empty(); }
  bool isolated() const { return isolated_; }
  bool elsewhere() const { return elsewhere_; }
  const std::string& failure() const { return failure_; }
  const std::optional<Round>& record() const { return record_; }
  bool connected() const { return client_->connected(); }
  void reconnect() { client_->cut(1ms); }

  Duration stood = {};  // its loop

 private:
  void on_message(const ToAgent& message) {
    if (const auto* answer = std::get_if<HeartbeatAnswer>(&message))
      attendance_ = answer->attendance;
    else if (const auto* record = std::get_if<KeepRecord>(&message))
      record_ = record->record;
    else
      received_.push_back(message);
  }

  asio::io_context io_;
  Listening listening_;
  std::string name_;
  std::deque<ToAgent> received_;
  std::optional<Attendance> attendance_;
  std::optional<Round> record_;
  bool isolated_ = false, elsewhere_ = false;
  std::string failure_;
  std::unique_ptr<CoordinatorClient> client_;
};

using Agents = std::vector<Agent*>;

// The other one goes on as well.
template <class Done>
bool run_until(Agent& agent, Agent& other, Done done, Duration limit = kLimit) {
  const auto end = Clock::now() + limit;
  return agent.until([&] { return other.idle(1ms), done() || Clock::now() > end; }) && done();
}

template <class Order>
void all_receive(const Agents& agents) {
  for (Agent* agent : agents) agent->receive<Order>();
}

void seat(const Agents& agents) {
  for (Agent* agent : agents) agent->join();
  all_receive<TakeSeat>(agents);
}

void confirm(const Agents& agents, int round) {
  for (Agent* agent : agents) agent->send(NodeConfirmed{0, round});
}

RoundPolicy nodes(int least, int most) { return {.nodes_min = least, .nodes_max = most}; }

}  // namespace

// The look-up ends once the client has complained of it.
TEST_CASE("an agent joins however long the look-up of the coordinator's name takes", "[control][waits]") {
  Place place(nodes(1, 1));
  const auto complained = std::make_shared<std::promise<void>>();
  const auto look_up = [wait = complained->get_future().share()](const std::string&) {
    wait.wait_for(kLimit);
    return LookUp{.addresses = numeric_addresses("127.0.0.1")};
  };
  asio::io_context io;
  std::vector<std::string> failures;
  CoordinatorClient client(io,
                           {.places = {{"node0.cluster", place.port}},
                            .trust = trust("node"),
                            .hello = {kJob, 1, {}},
                            .names = std::make_shared<Resolver>(io, look_up)},
                           {[](const Welcome&) {}, [](const ToAgent&) {}, [](const Elsewhere&) {}, [] {},
                            [&](const CoordinatorClient::Failure& failure) {
                              if (failures.empty()) complained->set_value();
                              failures.push_back(failure.why);
                            }});
  CHECK(run_until(io, [&] { return client.connected(); }));
  REQUIRE(failures.size() >= 1);
  CHECK_THAT(failures.front(), Catch::Contains("node0.cluster:" + std::to_string(place.port)) &&
                                   Catch::Contains("no name server has answered"));
}

TEST_CASE("agents meet at the coordinator, get their seats, and end together", "[control]") {
  const std::string token = GENERATE("", "0123456789abcdef0123456789abcdef");
  Place place(nodes(2, 2), kLease, token);
  Agent one(place, "one", kJob, token), two(place, "two", kJob, token);
  one.join(3);
  two.join(2);
  const Seat first = one.receive<TakeSeat>().seat, second = two.receive<TakeSeat>().seat;
  CHECK(first.world_size == 5);
  CHECK(first.first_rank + second.first_rank == (first.first_rank ? 2 : 3));
  CHECK(first.master_host == "127.0.0.1");
  confirm({&one, &two}, 1);
  CHECK(one.receive<StartRound>().round == 1);
  CHECK(two.receive<StartRound>().round == 1);
  one.send(NodeDone{0, 1});
  two.send(NodeDone{0, 1});
  CHECK(one.receive<EndJob>().outcome.verdict == Verdict::success);
  CHECK(two.receive<EndJob>().outcome.verdict == Verdict::success);
  CHECK_FALSE(place.server->wait_until_left(10ms));
  one.vanish();
  two.vanish();
  CHECK(place.server->wait_until_left(kLimit));
}

TEST_CASE("a late agent finds the coordinator once it is there", "[control]") {
  const Listening reserved = open_listener("127.0.0.1", 0);
  close(reserved.fd);
  Place nobody(nodes(1, 1));
  nobody.port = reserved.port;
  Agent agent(nobody);
  REQUIRE(agent.until([&] { return !agent.failure().empty(); }));
  CHECK(agent.failure() == "localhost:" + std::to_string(reserved.port) + ": Connection refused");
  const Place there(nodes(1, 1), kLease, "", reserved.port);
  agent.join();
  agent.receive<TakeSeat>();
}

TEST_CASE("an agent of another job's kind is told the difference", "[control]") {
  Place place(nodes(1, 1));
  Agent other(place, "other", {kControlProtocol, "1.0", "3", "train"});
  const Outcome outcome = other.receive<EndJob>().outcome;
  CHECK(outcome.verdict == Verdict::refused);
  CHECK(outcome.reason == "--nnodes is 3 here and 2 in the job; start every node with the same one");
}

TEST_CASE("without the token nobody joins, and the agent is told so", "[control]") {
  Place place(nodes(1, 1), kLease, "0123456789abcdef0123456789abcdef");
  Agent stranger(place, "stranger", kJob, GENERATE("", "f123456789abcdef0123456789abcdef"));
  REQUIRE(stranger.until([&] { return !stranger.failure().empty(); }));
  CHECK_FALSE(stranger.connected());
}

TEST_CASE("an agent that dies is missed at once, and the others go on without its workers", "[control]") {
  const std::string token = GENERATE("", "0123456789abcdef0123456789abcdef");
  Place place(nodes(1, 2), 60s, token);
  Agent one(place, "one", kJob, token), two(place, "two", kJob, token);
  seat({&one, &two});
  two.vanish();
  CHECK(one.receive<EndRound>().reason == "two (127.0.0.1) was lost: the other side closed the connection");
  const auto before = Clock::now();
  one.send(NodeReady{0, {.name = "one"}});
  CHECK(one.receive<TakeSeat>().seat.group_world_size == 1);
  CHECK(Clock::now() - before < 10s);  // not the fence of 61 s: nobody listens any more at its port
}

TEST_CASE("a spare learns that a round has begun, and that those of an earlier one have no say any more", "[control]") {
  Place place(nodes(2, 2));
  Agent one(place, "one"), two(place, "two"), three(place, "three"), four(place, "four");
  seat({&one, &two});
  confirm({&one, &two}, 1);
  all_receive<StartRound>({&one, &two});
  three.join();
  four.join();
  REQUIRE(four.until([&] { return four.record().has_value(); }));
  CHECK(four.record()->previous_electorates.empty());
  two.vanish();
  one.receive<EndRound>();
  one.join();
  all_receive<TakeSeat>({&one, &three});
  REQUIRE(four.until([&] { return four.record()->number == 2; }));
  CHECK(four.record()->previous_electorates.size() == 1);
  confirm({&one, &three}, 2);
  all_receive<StartRound>({&one, &three});
  CHECK(four.until([&] { return four.record()->previous_electorates.empty(); }));
  CHECK(four.record()->number == 2);
}

TEST_CASE("who coordinates from now on learns that all have confirmed its round, and so do those it left out",
          "[control]") {
  const PeerTrust first = trust("one");
  Place place(nodes(1, 3), kLease, "", 0, first.own.instance);
  Agent one(place, first), two(place, "two"), three(place, "three");
  seat({&one, &two, &three});
  confirm({&one, &two, &three}, 1);
  all_receive<StartRound>({&one, &two, &three});
  one.send(NodeReady{0, {.workers = 1, .port = 1000, .name = "one", .unfit = "its health check failed"}});
  all_receive<EndRound>({&two, &three});
  seat({&two, &three});
  for (Agent* agent : {&two, &three}) CHECK(agent->record()->previous_electorates.size() == 1);
  confirm({&two, &three}, 2);
  for (Agent* agent : {&one, &two, &three}) {
    REQUIRE(agent->until([&] { return agent->elsewhere(); }));
    CHECK(agent->record()->number == 2);
    CHECK(agent->record()->previous_electorates.empty());
  }
}

TEST_CASE("an agent that hangs up and lives on is waited for until its lease is over", "[control][waits]") {
  Place place(nodes(1, 2), 2s);
  Agent one(place, "one"), two(place, "two");
  seat({&one, &two});
  const auto last_heard = Clock::now();
  two.disconnect();
  one.receive<EndRound>();
  one.send(NodeReady{0, {.name = "one"}});
  CHECK(one.receive<TakeSeat>().seat.group_world_size == 1);
  CHECK(Clock::now() - last_heard >= 2s);
}

TEST_CASE("silence for the lease loses a node, and isolates its agent", "[control][waits]") {
  Place place(nodes(1, 2), 2s);
  Agent one(place, "one"), two(place, "two");
  seat({&one, &two});  // from here on the second one's loop stands still
  CHECK(one.receive<EndRound>().reason == "two (127.0.0.1) was lost: no heartbeat for 2 s");
  REQUIRE(two.until([&] { return two.isolated(); }));
  REQUIRE(two.until([&] { return two.connected(); }));  // it is back
  two.send(NodeBack{0, 1, {.name = "two"}});
  CHECK(two.receive<EndRound>().round == 1);
  CHECK_FALSE(one.isolated());
}

TEST_CASE("a node whose loop stands too long is lost, though its link beats, and is back when its loop is",
          "[control]") {
  Place place(nodes(1, 2), 2s);
  Agent one(place, "one"), two(place, "two");
  seat({&one, &two});
  two.stood = 1s;
  CHECK_FALSE(run_until(
      two, one, [&] { return two.isolated(); }, 1s));
  two.stood = 3s;
  REQUIRE(run_until(two, one, [&] { return two.isolated(); }));
  CHECK(one.receive<EndRound>().reason == "two (127.0.0.1) was lost: its agent has been stuck for 3 s");
  REQUIRE(run_until(two, one, [&] { return !two.connected(); }));
  CHECK_FALSE(run_until(
      two, one, [&] { return two.connected(); }, 300ms));
  two.stood = 0s;
  CHECK(two.until([&] { return two.connected(); }));
}

TEST_CASE("a lease does not go on by a new connection before its agent has spoken", "[control]") {
  Place place(nodes(1, 2), 2s);
  Agent one(place, "one"), two(place, "two");
  seat({&one, &two});
  for (Agent* agent : {&one, &two}) agent->reconnect();
  REQUIRE(one.until([&] { return one.connected() && !one.failure().empty(); }));
  one.send(NodeBack{0, 1, {.name = "one"}});
  CHECK(run_until(two, one, [&] { return two.isolated(); }));
  CHECK_FALSE(one.isolated());
}

TEST_CASE("who waits is told how many are there", "[control]") {
  Place place(nodes(3, 3), 2s);
  Agent one(place, "one"), two(place, "two");
  one.join(4);
  two.join(4);
  REQUIRE(one.until([&] { return one.attendance() && one.attendance()->nodes == 2; }));  // by its heartbeats
  CHECK(one.attendance()->nodes_wanted == 3);
  CHECK(one.attendance()->workers == 8);
}

TEST_CASE("a word of the one who failed reaches all", "[control]") {
  Place place(nodes(2, 2));
  Agent one(place, "one"), two(place, "two");
  seat({&one, &two});
  one.send(FailureText{"rank 0 died"});
  CHECK(two.receive<FailureText>().text == "rank 0 died");
}

TEST_CASE("who does not say hello, or speaks no language, is dropped", "[control]") {
  Place place(nodes(1, 1));
  RawPeer peer(place.port);
  peer.send(encode(Greeting{PeerRole::client, make_identity("stranger", "my-job")}));
  peer.send(framed(GENERATE("{\"type\":\"done\",\"round\":1}", "nonsense", "[]")));
  CHECK(peer.closed_within(kLimit));
}

namespace {

Round record_of(int number, int term) {
  return {.number = number, .nodes = {{.id = 1}}, .term = term, .coordinator = 1};
}

// An agent's control port that does not lead.
struct Port {
  explicit Port(std::function<Vote(const VoteRequest&)> vote = {}, std::function<void(int term)> on_announcement = {}) {
    const Listening listening = open_listener("127.0.0.1", 0);
    place = {"127.0.0.1", listening.port};
    server = std::make_unique<CoordinatorServer>(CoordinatorServer::Options{
        .listening = listening,
        .trust = trust("agent"),
        .fingerprint = kJob,
        .policy = nodes(1, 3),
        .self = 1,
        .log = [](const std::string&) {},
        .on_vote_request = [vote](const VoteRequest& request, const auto& answer) { answer(vote(request)); },
        .on_announcement = [on_announcement](const CoordinatorAnnouncement& announcement,
                                             const ControlAddress&) { on_announcement(announcement.term); }});
  }

  ControlAddress place;
  std::unique_ptr<CoordinatorServer> server;
};

// What a client at these places is told first.
struct Seeker {
  Seeker(const ControlAddress& place, const RecordId& record, NodeId instead_of = 0) {
    Hello hello{kJob, 1, record, instead_of};
    const PeerTrust own = trust("seeker");
    id = own.own.instance;
    client = std::make_unique<CoordinatorClient>(
        io, CoordinatorClient::Options{{place}, own, hello},
        CoordinatorClient::Hooks{[this](const Welcome& m) { welcome = m; }, [](const ToAgent&) {},
                                 [this](const Elsewhere& m) { elsewhere = m; }, [] {},
                                 [](const CoordinatorClient::Failure&) {}});
  }
  template <class Done>
  bool until(Done done) {
    return run_until(io, done);
  }

  asio::io_context io;
  NodeId id = 0;
  std::optional<Welcome> welcome;
  std::optional<Elsewhere> elsewhere;
  std::unique_ptr<CoordinatorClient> client;
};

}  // namespace

TEST_CASE("who looks for the coordinator at another agent is told where it is", "[control]") {
  const Place place(nodes(1, 1));
  const Port port;
  port.server->refer_to(3, ControlAddress{"127.0.0.1", place.port});
  Seeker seeker(port.place, {});
  REQUIRE(seeker.until([&] { return seeker.elsewhere.has_value(); }));
  CHECK(seeker.elsewhere->term == 3);
  seeker.client->connect_to(*seeker.elsewhere->coordinator);
  CHECK(seeker.until([&] { return seeker.welcome.has_value(); }));
  CHECK(seeker.client->coordinator()->port == place.port);
}

TEST_CASE("two agents that name each other do not keep who asks them running", "[control]") {
  const Port one, other;
  one.server->refer_to(3, other.place);
  other.server->refer_to(3, one.place);
  Seeker seeker(one.place, {});
  int referrals = 0;
  const auto follow = [&] {
    if (const auto referral = std::exchange(seeker.elsewhere, std::nullopt)) {
      ++referrals;
      seeker.client->on_referral(*referral->coordinator);
    }
    return referrals;
  };
  CHECK(seeker.until([&] { return follow() >= 4; }));
  CHECK_FALSE(run_until(
      seeker.io, [&] { return follow() >= 10; }, 300ms));
}

TEST_CASE("who knows less of the job than an agent does not coordinate it any longer", "[control]") {
  const Port port;
  port.server->lead({1, record_of(3, 0), Clock::now()}, Clock::now());
  Seeker newcomer({"localhost", port.place.port}, {});
  REQUIRE(newcomer.until([&] { return newcomer.welcome.has_value(); }));
  Seeker survivor({"localhost", port.place.port}, {2, 7});
  REQUIRE(survivor.until([&] { return survivor.elsewhere.has_value(); }));
  CHECK_FALSE(survivor.welcome);
  CHECK(newcomer.until([&] { return newcomer.elsewhere.has_value(); }));
}

TEST_CASE("a coordinator that begins a job waits while an agent of another round looks for it", "[control]") {
  const Place place(nodes(1, 1), 2s);
  Seeker survivor({"localhost", place.port}, {2, 7});
  REQUIRE(survivor.until([&] { return survivor.elsewhere.has_value(); }));
  Agent newcomer(place);
  newcomer.join();
  REQUIRE(newcomer.until([&] { return newcomer.attendance().has_value(); }));
  CHECK(newcomer.has_received_nothing());
  Seeker anew({"localhost", place.port}, {}, survivor.id);
  REQUIRE(anew.until([&] { return anew.welcome.has_value(); }));
  CHECK(newcomer.receive<TakeSeat>().seat.round == 8);
}

TEST_CASE("whoever refuses to be asked for a vote, or is another agent by now, is dead", "[control]") {
  const Port port([](const VoteRequest& request) { return Vote{request.term, true, {}, 5}; });
  Round record = record_of(4, 1);
  record.nodes.push_back({.id = 2, .first_rank = 1, .control = port.place});  // it has started again
  record.nodes.push_back({.id = 3, .first_rank = 2, .control = {"127.0.0.1", 1}});
  asio::io_context io;
  std::set<NodeId> dead;
  ElectionRpc rpc(
      io, std::make_shared<Resolver>(io), trust("candidate"), [](NodeId, const Vote&) { FAIL("the dead do not vote"); },
      [&](NodeId node) { dead.insert(node); });
  rpc.request_votes({5, 1, std::make_shared<const Round>(record)});
  run_until(io, [&] { return dead.size() == 2; });
  CHECK(dead == std::set<NodeId>{2, 3});
}

TEST_CASE("a candidate may hang up as soon as it hears of a vote, or of a death", "[control]") {
  const bool votes = GENERATE(true, false);
  const Port port([](const VoteRequest& request) { return Vote{request.term, true, {}, 2}; });
  Round record = record_of(4, 1);
  record.nodes.push_back({.id = 2, .first_rank = 1, .control = votes ? port.place : ControlAddress{"127.0.0.1", 1}});
  asio::io_context io;
  std::unique_ptr<ElectionRpc> rpc;
  int reports = 0;
  const auto close_all = [&] {
    ++reports;
    rpc->close_all();
  };
  rpc = std::make_unique<ElectionRpc>(
      io, std::make_shared<Resolver>(io), trust("candidate"), [&](NodeId, const Vote&) { close_all(); },
      [&](NodeId) { close_all(); });
  rpc->request_votes({5, 1, std::make_shared<const Round>(record)});
  run_until(io, [&] { return reports > 0; });
  CHECK(reports == 1);
}

TEST_CASE("an internal error ends the coordinator, and its agents look for another one", "[control]") {
  bool failed = false;
  const Port port({}, [&](int) {
    if (!std::exchange(failed, true)) throw std::out_of_range("a bug");
  });
  port.server->lead();
  Seeker agent({"localhost", port.place.port}, {});
  REQUIRE(agent.until([&] { return agent.welcome.has_value(); }));
  ElectionRpc rpc(agent.io, std::make_shared<Resolver>(agent.io), trust("candidate"), [](NodeId, const Vote&) {});
  rpc.announce({5, 4711}, {port.place});
  CHECK(agent.until([&] { return agent.elsewhere.has_value(); }));
  Seeker newcomer({"localhost", port.place.port}, {});
  CHECK(newcomer.until([&] { return newcomer.elsewhere.has_value(); }));
  CHECK_FALSE(newcomer.welcome);
}

TEST_CASE("a candidate asks the agents of its record, and calls them once it is elected", "[control]") {
  std::mutex mutex;
  std::vector<int> requested, announced;
  const auto note = [&](std::vector<int>& list, int term) {
    const std::lock_guard lock(mutex);
    list.push_back(term);
  };
  const Port port(
      [&](const VoteRequest& request) {
        note(requested, request.record->number);
        return Vote{request.term, true, {}, 2};
      },
      [&](int term) { note(announced, term); });
  Round record = record_of(4, 1);
  record.nodes.push_back({.id = 2, .first_rank = 1, .control = port.place});
  record.nodes.push_back({.id = 3, .first_rank = 2, .control = {"127.0.0.1", 1}});  // nobody is there
  asio::io_context io;
  std::vector<NodeId> voters;
  ElectionRpc rpc(io, std::make_shared<Resolver>(io), trust("candidate"), [&](NodeId voter, const Vote& vote) {
    if (vote.granted && vote.term == 5) voters.push_back(voter);
  });
  rpc.request_votes({5, 1, std::make_shared<const Round>(record)});
  REQUIRE(run_until(io, [&] { return !voters.empty(); }));
  CHECK(voters == std::vector<NodeId>{2});
  rpc.announce({5, 4711}, {});
  CHECK(run_until(io, [&] {
    const std::lock_guard lock(mutex);
    return announced == std::vector<int>{5};
  }));
  CHECK(requested == std::vector<int>{4});
}

TEST_CASE("a candidate asks the record's standbys first, and the others by the record's id alone", "[control]") {
  std::mutex mutex;
  std::size_t standbys = 0, others = 0, whole_to_others = 0;
  const auto voter = [&](std::size_t& requests, std::size_t& whole) {
    return [&](const VoteRequest& request) {
      const std::lock_guard lock(mutex);
      ++requests;
      whole += !request.record->nodes.empty();
      return Vote{request.term, true, {}, 2};
    };
  };
  std::size_t whole_to_standbys = 0;
  const Port standby(voter(standbys, whole_to_standbys)), other(voter(others, whole_to_others));
  Round record = record_of(4, 1);
  for (NodeId id = 2; id <= kStandbys + 2; ++id)
    record.nodes.push_back({.id = 2, .control = id <= kStandbys ? standby.place : other.place});
  asio::io_context io;
  ElectionRpc rpc(io, std::make_shared<Resolver>(io), trust("candidate"), [](NodeId, const Vote&) {});
  rpc.request_votes({5, 1, std::make_shared<const Round>(record)});
  run_until(io, [&] {
    const std::lock_guard lock(mutex);
    return others == 2 && standbys > 0;
  });
  const std::lock_guard lock(mutex);
  CHECK(others == 2);
  CHECK(whole_to_others == 0);
  CHECK(standbys > 0);  // half of them, or as many as answer in a moment
  CHECK(whole_to_standbys == standbys);
}

TEST_CASE("an elected coordinator goes on with who comes to it", "[control]") {
  const Port port;
  Seeker seeker(port.place, {0, 3});
  Round record = record_of(3, 0);
  record.nodes.front().id = 99;  // was lost
  record.coordinator = 99;
  record.nodes.push_back({.id = 98, .first_rank = 1});
  port.server->lead({1, record, Clock::now()}, Clock::now());
  REQUIRE(seeker.until([&] { return seeker.welcome.has_value(); }));
  CHECK(seeker.welcome->term == 1);
}

TEST_CASE("a connection for copies of snapshots is given away, and closed where nobody takes it",
          "[coordination][copies]") {
  const std::string token = "8f3b0c5de1a94726b8d05f13c7e2a964";
  std::promise<std::string> taken;
  const bool takes = GENERATE(true, false);
  const Listening listening = open_listener("127.0.0.1", 0);
  CoordinatorServer::Options options{.listening = listening,
                                     .trust = trust("one", token),
                                     .fingerprint = kJob,
                                     .policy = {},
                                     .log = [](const std::string&) {}};
  if (takes) options.on_copies = [&](ReleasedPeer peer) { taken.set_value(peer.peer.name); };
  CoordinatorServer server(std::move(options));
  asio::io_context io;
  std::optional<std::string> linked, failed;
  const auto dial = [&] {
    failed.reset();
    const LinkDialer dialer(
        io,
        {.agent = {"127.0.0.1", listening.port},
         .opening = copies_opening(),
         .welcome = copies_welcome(),
         .no_welcome = "it keeps none",
         .other_answer = "it is something else",
         .trust = trust("two", token),
         .within = takes ? kLimit : 200ms},
        {[&](ReleasedPeer peer) { linked = peer.peer.name; }, [&](const std::string& why) { failed = why; }});
    run_until(io, [&] { return linked || failed; });
  };
  // On a busy machine the time may be over in the middle of an attempt.
  for (const auto end = Clock::now() + kLimit; !linked && failed != "it keeps none" && Clock::now() < end;) dial();
  CHECK(linked == (takes ? std::optional<std::string>("one") : std::nullopt));
  CHECK(failed == (takes ? std::nullopt : std::optional<std::string>("it keeps none")));
  if (takes) CHECK(taken.get_future().get() == "two");
}
