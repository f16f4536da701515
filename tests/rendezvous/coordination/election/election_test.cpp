#include "rendezvous/coordination/election/election.h"

#include "tests/support/test.h"

namespace {

Round record_of(const std::vector<NodeId>& nodes, NodeId coordinator, int number = 1, int term = 0) {
  Round round{.number = number, .term = term, .coordinator = coordinator};
  for (const NodeId id : nodes) round.nodes.push_back({.id = id});
  return round;
}

// Agents that hold one record, and a network that a test holds in its hand.
struct Agents {
  explicit Agents(const Round& record) {
    for (const RoundNode& node : record.nodes) {
      agents.emplace(node.id, Election(node.id, 1));
      on(node.id, RecordKept{record.id(), record});
      on(node.id, RoundBegan{record.number});
      on(node.id, CoordinatorConnected{record.term});
    }
  }

  std::vector<ElectionAction> on(NodeId id, const ElectionEvent& event) { return agents.at(id).on(event, now); }

  template <class T>
  std::optional<T> one(const std::vector<ElectionAction>& actions) {
    if (actions.empty()) return {};
    REQUIRE(actions.size() == 1);
    if (!std::holds_alternative<T>(actions.front())) return {};
    return std::get<T>(actions.front());
  }

  void lose(const std::vector<NodeId>& ids, bool gone = false) {
    for (const NodeId id : ids) on(id, CoordinatorDisconnected{gone});
  }

  // It waits for its turn and stands.
  VoteRequest start_candidacy(NodeId id) {
    now = *agents.at(id).next_deadline();
    const auto request = one<AskForVotes>(on(id, ElectionTick{}));
    REQUIRE(request);
    return request->request;
  }

  Vote request_vote(NodeId voter, const VoteRequest& request) {
    const auto given = one<GiveVote>(on(voter, VoteRequested{request}));
    REQUIRE(given);
    return given->vote;
  }

  // Whether the candidate has won by this voter's answer.
  std::optional<Lead> poll(const VoteRequest& request, NodeId voter) {
    return one<Lead>(on(request.candidate, VoteGiven{voter, request_vote(voter, request)}));
  }

  std::map<NodeId, Election> agents;
  TimePoint now{};
};

}  // namespace

TEST_CASE("half of a round's nodes are a quorum with its coordinator, and more than half without it", "[election]") {
  const Electorate four{1, {1, 2, 3, 4}};
  CHECK(four.has_quorum({1, 2}));
  CHECK_FALSE(four.has_quorum({2, 3}));
  CHECK(four.has_quorum({2, 3, 4}));
  CHECK_FALSE(four.has_quorum({1, 5, 6}));
  const Electorate two{1, {1, 2}};
  CHECK(two.has_quorum({1}));
  CHECK_FALSE(two.has_quorum({2}));
}

TEST_CASE("without the coordinator the first node by rank is elected by more than half", "[election]") {
  Agents job(record_of({1, 2, 3, 4, 5}, 1));
  job.lose({2, 3, 4, 5});
  CHECK(*job.agents.at(2).next_deadline() < *job.agents.at(3).next_deadline());
  CHECK(*job.agents.at(3).next_deadline() < *job.agents.at(5).next_deadline());
  const VoteRequest request = job.start_candidacy(2);
  CHECK(request.term == 1);
  CHECK_FALSE(job.poll(request, 3));
  const auto won = job.poll(request, 4);
  REQUIRE(won);
  CHECK(won->term == 1);
  CHECK(won->record.id() == RecordId{0, 1});
  CHECK(won->requested_at == job.now);
}

TEST_CASE("an agent gives one vote in a term, and gives it again to whom it gave it", "[election]") {
  Agents job(record_of({1, 2, 3, 4, 5}, 1));
  job.lose({2, 3, 4, 5});
  const VoteRequest first = job.start_candidacy(2), second = job.start_candidacy(3);
  CHECK(job.request_vote(4, first).granted);
  CHECK_FALSE(job.request_vote(4, second).granted);
  CHECK(job.request_vote(4, first).granted);
  CHECK_FALSE(job.request_vote(3, first).granted);  // it voted for itself
}

TEST_CASE("a vote stays given in its term, also after contact to the coordinator that it elected", "[election]") {
  Agents agents(record_of({1, 2, 3}, 1));
  agents.lose({2, 3});
  VoteRequest request = agents.start_candidacy(2);
  CHECK(agents.request_vote(3, request).granted);
  agents.on(3, CoordinatorConnected{request.term});
  agents.lose({3});
  agents.now += 1min;
  request.candidate = 1;
  CHECK_FALSE(agents.request_vote(3, request).granted);
  ++request.term;
  CHECK(agents.request_vote(3, request).granted);
}

TEST_CASE("an agent that is in touch with its coordinator votes for nobody", "[election]") {
  Agents job(record_of({1, 2, 3}, 1));
  job.lose({2});
  const VoteRequest request = job.start_candidacy(2);
  CHECK_FALSE(job.request_vote(3, request).granted);
  CHECK(job.agents.at(3).is_connected());
  job.lose({3});
  CHECK(job.request_vote(3, request).granted);
}

TEST_CASE("nobody votes for a candidate whose record is older, and a newer one is taken over with the vote",
          "[election]") {
  const Round older = record_of({1, 2, 3}, 1, 1), newer = record_of({1, 2, 3}, 1, 2);
  Agents job(older);
  job.on(3, RecordKept{newer.id(), newer});
  job.lose({2, 3});
  CHECK_FALSE(job.request_vote(3, job.start_candidacy(2)).granted);
  const VoteRequest request = job.start_candidacy(3);
  CHECK(request.record->number == 2);
  CHECK(job.poll(request, 2));
  CHECK(job.agents.at(2).record()->number == 2);
}

TEST_CASE("a record that not all have confirmed is led only with a quorum of those before it, too", "[election]") {
  Round newer = record_of({2, 3, 8, 9}, 2, 2);
  newer.previous_electorates = {{1, {1, 2, 3, 4, 5}}};
  Agents job(newer);
  for (const NodeId id : {3, 8, 9}) job.agents.at(id) = Election(id, 1), job.on(id, RecordKept{newer.id(), newer});
  job.lose({3, 8, 9});
  const VoteRequest request = job.start_candidacy(3);
  CHECK_FALSE(job.poll(request, 8));
  CHECK_FALSE(job.poll(request, 9));  // a quorum of round 2, but only one of round 1's five
  job.agents.emplace(4, Election(4, 1));
  job.agents.emplace(5, Election(5, 1));
  CHECK_FALSE(job.poll(request, 4));
  CHECK(job.poll(request, 5));
}

TEST_CASE("a split vote is tried again at other times", "[election]") {
  Agents job(record_of({1, 2, 3, 4}, 1));
  job.lose({2, 3, 4});
  const VoteRequest first = job.start_candidacy(2), second = job.start_candidacy(3);
  job.now += 1s;
  REQUIRE(job.agents.at(2).next_deadline());
  const VoteRequest again = job.start_candidacy(3);
  CHECK(again.term > second.term);
  CHECK_FALSE(job.poll(again, 2));
  CHECK(job.poll(again, 4));
  CHECK_FALSE(job.one<Lead>(job.on(2, VoteGiven{4, {first.term, true}})));  // what came late counts no more
}

TEST_CASE("who has voted gives its candidate time: neither bad news nor a later term of an equal one counts",
          "[election]") {
  Agents job(record_of({1, 2, 3, 4, 5}, 1));
  job.lose({2, 3, 4, 5});
  const VoteRequest first = job.start_candidacy(2);
  REQUIRE(job.request_vote(4, first).granted);
  const auto until = *job.agents.at(4).next_deadline();
  CHECK(until >= job.now + 500ms);
  job.lose({4}, true);  // its connection to the old coordinator is refused once more
  CHECK(job.agents.at(4).next_deadline() == until);
  VoteRequest later = first;
  later.term += 1;
  later.candidate = 3;
  CHECK_FALSE(job.request_vote(4, later).granted);
  job.now = until;
  CHECK(job.request_vote(4, later).granted);
}

TEST_CASE("a vote for a newer record of which only the id is told is given, and its owner stands no more",
          "[election]") {
  Agents job(record_of({1, 2, 3}, 1));
  job.lose({2, 3});
  VoteRequest request = job.start_candidacy(2);
  request.record = only_id({0, 2});
  REQUIRE(job.request_vote(3, request).granted);
  CHECK_FALSE(job.agents.at(3).record());
  CHECK_FALSE(job.agents.at(3).next_deadline());
}

TEST_CASE("the more nodes there are the longer an agent waits for those before it", "[election]") {
  std::vector<NodeId> ids;
  for (NodeId id = 1; id <= 1000; ++id) ids.push_back(id);
  Agents job(record_of(ids, 1));
  job.lose({2, 3}, true);
  CHECK(*job.agents.at(2).next_deadline() == job.now);
  CHECK(*job.agents.at(3).next_deadline() >= job.now + 200ms);
}

TEST_CASE("who is elected knows how many nodes a user wants", "[election]") {
  const Round record = record_of({1, 2, 3}, 1);
  Agents job(record);
  job.on(2, RecordResized{record.id(), {2, 3}});
  job.on(2, RecordResized{{7, 7}, {1, 1}});  // of another round
  job.lose({2, 3});
  const auto lead = job.poll(job.start_candidacy(2), 3);
  REQUIRE(lead);
  CHECK(lead->record.resized == NodeRange{2, 3});
}

TEST_CASE("once all have confirmed a round its nodes alone elect, and one that was left out does not stand",
          "[election]") {
  Round next = record_of({1, 2, 3}, 2);
  next.number = 2;
  next.previous_electorates = {{1, {1, 3, 4, 5}}};
  for (const bool confirmed : {false, true}) {
    Agents job(record_of({1, 3, 4, 5}, 1));
    Election two(2), four = job.agents.at(4);
    two.on(RecordKept{next.id(), next}, job.now);
    if (confirmed) two.on(RecordConfirmed{next.id(), true}, job.now);
    if (confirmed) four.on(RecordConfirmed{next.id(), false}, job.now);
    for (Election* agent : {&two, &four}) agent->on(CoordinatorConnected{}, job.now);
    for (Election* agent : {&two, &four}) agent->on(CoordinatorDisconnected{true, job.now}, job.now);
    CHECK(four.next_deadline().has_value() != confirmed);
    CHECK(two.on(ElectionTick{}, *two.next_deadline()).size() == 1);
    const auto won = two.on(VoteGiven{3, {two.term(), true, {}, 3}}, job.now);
    CHECK(std::any_of(won.begin(), won.end(), [](const auto& one) { return std::holds_alternative<Lead>(one); }) ==
          confirmed);
  }
}

TEST_CASE("however many nodes are dead that come first, the next one stands within ten seconds", "[election]") {
  std::vector<NodeId> ids;
  for (NodeId id = 1; id <= 4000; ++id) ids.push_back(id);
  const Round record = record_of(ids, 1);
  const TimePoint now = TimePoint{} + 100s;
  std::vector<TimePoint> turns;
  for (const NodeId id : {60, 61}) {
    Election standby(id, 1);
    standby.on(RecordKept{record.id(), record}, now);
    standby.on(RoundBegan{record.number}, now);
    standby.on(CoordinatorConnected{}, now);
    standby.on(CoordinatorDisconnected{true, now}, now);
    turns.push_back(*standby.next_deadline());
    CHECK(turns.back() >= now + 5s);
    CHECK(turns.back() <= now + 10s);
  }
  CHECK(turns[0] != turns[1]);
}

TEST_CASE("of two nodes the one that coordinates goes on alone, the other gives up", "[election]") {
  Agents gone(record_of({1, 2}, 1));
  const auto given_up = gone.one<GiveUp>(gone.on(2, CoordinatorDisconnected{true}));
  REQUIRE(given_up);
  CHECK(given_up->certain);
}

TEST_CASE("of two nodes the other gives up once the one that coordinates was silent for long, not before",
          "[election]") {
  Agents job(record_of({1, 2}, 1));
  job.now = TimePoint{} + 100s;
  job.on(2, CoordinatorDisconnected{false, job.now});
  for (const auto lost = job.now; job.now < lost + 5s;) {
    job.now = *job.agents.at(2).next_deadline();
    if (job.now < lost + 5s) CHECK(job.on(2, ElectionTick{}).empty());
  }
  const auto given_up = job.one<GiveUp>(job.on(2, ElectionTick{}));
  REQUIRE(given_up);
  CHECK_FALSE(given_up->certain);
}

TEST_CASE("who is left gives up when so many are known to be dead that nobody can be elected", "[election]") {
  Agents job(record_of({1, 2, 3}, 1));
  job.lose({3}, true);
  job.start_candidacy(3);
  CHECK(job.on(3, NodeDead{1}).empty());  // the coordinator was not there anyway
  CHECK(job.one<GiveUp>(job.on(3, NodeDead{2})));
  CHECK_FALSE(job.agents.at(3).next_deadline());
}

TEST_CASE("nobody gives up who is in touch with a coordinator, or whose coordinator may be back", "[election]") {
  Agents job(record_of({1, 2, 3}, 1));
  CHECK(job.on(3, NodeDead{2}).empty());
  job.now = TimePoint{} + 100s;
  CHECK(job.on(3, CoordinatorDisconnected{false, job.now}).empty());
  job.now += 1s;
  CHECK(job.on(3, ElectionTick{}).empty());
  job.on(3, CoordinatorConnected{0});
  CHECK_FALSE(job.agents.at(3).next_deadline());
  CHECK(job.on(3, ElectionTick{}).empty());
}

TEST_CASE("who is none of a record's nodes gives no vote for it: the one before had its address", "[election]") {
  Agents job(record_of({1, 2, 3}, 1));
  job.lose({2});
  const VoteRequest request = job.start_candidacy(2);
  job.agents.emplace(7, Election(7, 1));
  CHECK_FALSE(job.request_vote(7, request).granted);
  CHECK(job.agents.at(7).newest() == RecordId{});
}

TEST_CASE("who is chosen by a coordinator that hands over wins at once, by itself where it is alone", "[election]") {
  Agents alone(record_of({2}, 2, 2));
  alone.lose({2});
  CHECK(*alone.agents.at(2).next_deadline() == alone.now);
  CHECK(alone.one<Lead>(alone.on(2, ElectionTick{})));
  Agents three(record_of({2, 3, 4}, 2, 2));
  three.lose({2, 3, 4});
  CHECK(*three.agents.at(2).next_deadline() < *three.agents.at(3).next_deadline());
}

TEST_CASE("who is chosen asks again soon where others have not heard that the coordinator stopped", "[election]") {
  Agents job(record_of({2, 3, 4}, 2, 2));
  job.lose({2});
  const VoteRequest early = job.start_candidacy(2);
  for (const NodeId voter : {3, 4}) CHECK_FALSE(job.poll(early, voter));  // in touch with it
  CHECK(*job.agents.at(2).next_deadline() - job.now <= 200ms);
  job.lose({3, 4});
  const VoteRequest again = job.start_candidacy(2);
  CHECK(again.term == early.term + 1);
  CHECK(job.poll(again, 3));
}

TEST_CASE("of two nodes the other one waits for the one that is chosen, however late that calls", "[election]") {
  for (const bool gone : {false, true}) {
    const Round record = record_of({2, 3}, 2, 2);
    Election other(3);
    TimePoint now = TimePoint{} + 100s;
    other.on(CoordinatorConnected{}, now);
    other.on(RecordKept{record.id(), record}, now);  // its coordinator is not part of it: no round begins
    CHECK(other.on(CoordinatorDisconnected{gone, now}, now).empty());
    for (int tries = 0; tries < 5; ++tries) {
      REQUIRE(other.next_deadline());
      now = *other.next_deadline();
      CHECK_FALSE(std::holds_alternative<GiveUp>(other.on(ElectionTick{}, now).at(0)));
    }
    CHECK(std::holds_alternative<Follow>(other.on(CoordinatorAnnounced{1}, now).at(0)));
  }
}

TEST_CASE("a coordinator of a later term is followed, one of an earlier term is not", "[election]") {
  Agents job(record_of({1, 2, 3}, 1, 1, 4));
  CHECK(job.on(2, CoordinatorAnnounced{4}).empty());
  CHECK(job.on(2, CoordinatorAnnounced{3}).empty());
  CHECK(job.one<Follow>(job.on(2, CoordinatorAnnounced{5})));
  job.lose({3});
  CHECK(job.one<Follow>(job.on(3, CoordinatorAnnounced{4})));
  Election newcomer(7);
  CHECK(job.one<Follow>(newcomer.on(CoordinatorAnnounced{1}, job.now)));
}

TEST_CASE("an agent without the record votes, and does not stand", "[election]") {
  Agents job(record_of({1, 2, 3}, 1));
  Election voter(3);
  voter.on(RecordKept{{0, 1}, {}}, job.now);
  voter.on(CoordinatorDisconnected{}, job.now);
  CHECK_FALSE(voter.next_deadline());
  job.lose({2});
  CHECK(job.one<GiveVote>(voter.on(VoteRequested{job.start_candidacy(2)}, job.now))->vote.granted);
}

TEST_CASE("who is elected knows when any of its voters last heard of the coordinator before", "[election]") {
  Agents job(record_of({1, 2, 3, 4, 5}, 1));
  job.now = TimePoint{} + 100s;
  job.on(2, CoordinatorDisconnected{false, job.now - 5s});
  job.on(3, CoordinatorDisconnected{false, job.now - 3s});
  job.on(4, CoordinatorDisconnected{false, job.now - 4s});
  const TimePoint lost_at = job.now;
  const VoteRequest request = job.start_candidacy(2);
  CHECK_FALSE(job.poll(request, 4));
  const auto won = job.poll(request, 3);
  REQUIRE(won);
  CHECK(won->heard_at == lost_at - 3s);
}

TEST_CASE("an agent that stood in vain follows the one that was elected meanwhile, whatever its own term is now",
          "[election]") {
  Agents job(record_of({1, 2, 3}, 1));
  job.lose({3});
  for (int i = 0; i < 5; ++i) job.start_candidacy(3);
  CHECK(job.agents.at(3).term() == 5);
  CHECK(job.one<Follow>(job.on(3, CoordinatorAnnounced{1})));
  job.on(3, CoordinatorConnected{1});
  CHECK(job.on(3, CoordinatorAnnounced{1}).empty());
  CHECK(job.one<Follow>(job.on(3, CoordinatorAnnounced{2})));
  CHECK(job.agents.at(3).term() == 5);  // and votes for nobody of an earlier one
}
