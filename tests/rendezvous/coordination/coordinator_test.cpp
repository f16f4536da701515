#include "rendezvous/coordination/coordinator.h"

#include "tests/support/test.h"

namespace {

const TimePoint t0{};

using Ids = std::vector<NodeId>;

NodeReady ready(NodeId node, int workers = 1, std::uint16_t port = 1000) {
  return {node, {.workers = workers, .host = "host" + std::to_string(node), .port = port}};
}

NodeReady requesting(NodeId node, int rank) {
  NodeReady message = ready(node);
  message.offer.requested_rank = rank;
  return message;
}

NodeReady unfit(NodeId node, const std::string& why) {
  NodeReady message = ready(node);
  message.offer.unfit = why;
  return message;
}

WorkerFailed failure(int round, ExitStatus status, NodeId node = 0) { return {{round, node, 0, 0, status}}; }

WorkerFailed by_rule(RuleAction action, WorkerFailed message) {
  message.rule = RuleMatch{action, "job.toml:7"};
  return message;
}

NodeLost lost(NodeId node, TimePoint workers_until) { return {node, workers_until, "its connection was closed"}; }

std::string words_of(const EndRound& end) { return (end.planned ? "planned: " : "") + end.reason; }

Ids ids(const Round& round) {
  Ids out;
  for (const RoundNode& node : round.nodes) out.push_back(node.id);
  return out;
}

// A coordinator, and the time, which only grows.
struct Job {
  explicit Job(const RoundPolicy& policy, std::optional<NodeId> self = {}) : coordinator(policy, t0, 0, self) {}

  std::vector<Order> on(const Message& message, Duration later = {}) { return coordinator.on(message, now += later); }

  template <class T>
  T only(const Message& message, Duration later = {}) {
    const std::vector<Order> orders = on(message, later);
    REQUIRE(orders.size() == 1);
    REQUIRE(std::holds_alternative<T>(orders.front()));
    return std::get<T>(orders.front());
  }

  // What the last of these nodes brings about by being ready.
  std::vector<Order> on_ready(const Ids& nodes) {
    std::vector<Order> orders;
    for (const NodeId node : nodes) orders = on(ready(node));
    return orders;
  }
  // The round that forms as soon as the last of these nodes is ready.
  Round form(const std::vector<NodeReady>& nodes) {
    for (const NodeReady& node : nodes)
      if (&node != &nodes.back()) on(node);
    return only<FormRound>(nodes.back()).round;
  }
  Round form(const Ids& nodes) {
    std::vector<NodeReady> messages;
    for (const NodeId node : nodes) messages.push_back(ready(node));
    return form(messages);
  }
  Round run(const Ids& nodes) { return start(form(nodes)); }

  Round start(const Round& round) {
    for (const NodeId node : ids(round)) on(NodeConfirmed{node, round.number});
    for (const NodeId node : ids(round)) on(NodeRunning{node, round.number});
    return round;
  }

  TimePoint now = t0;
  Coordinator coordinator;
};

RoundPolicy fixed(int nodes) { return {.nodes_min = nodes, .nodes_max = nodes}; }

template <class T>
bool has(const std::vector<Order>& orders) {
  return std::any_of(orders.begin(), orders.end(), [](const Order& order) { return std::holds_alternative<T>(order); });
}

}  // namespace

TEST_CASE("a job of one node forms its round at once", "[coordinator]") {
  Job job({});
  const Round round = job.only<FormRound>(ready(0, 4, 4711)).round;
  CHECK(round.number == 1);
  CHECK(round.world_size() == 4);
  CHECK(round.master_host == "host0");
  CHECK(round.master_port == 4711);
  CHECK(round.ledger.counts == RestartCounts{});
  CHECK(job.only<StartRound>(NodeConfirmed{0, 1}).round == 1);
}

TEST_CASE("a round waits for all nodes and adds up what each brings", "[coordinator]") {
  Job job(fixed(3));
  CHECK(job.on(ready(2, 4)).empty());
  CHECK(job.on(ready(0, 1, 99)).empty());
  const Round round = job.only<FormRound>(ready(1, 2)).round;
  CHECK(round.world_size() == 7);
  CHECK(ids(round) == Ids{2, 0, 1});  // as they came
  CHECK(round.master_host == "host2");
  REQUIRE(round.find(1));
  CHECK(round.find(1)->first_rank == 5);
  CHECK(round.group_rank(1) == 2);
}

TEST_CASE("workers start when every node holds the record, not before", "[coordinator]") {
  Job job(fixed(2));
  job.on(ready(0));
  job.only<FormRound>(ready(1));
  CHECK(job.on(NodeConfirmed{1, 1}).empty());
  CHECK(job.on(NodeConfirmed{1, 1}).empty());
  CHECK(job.only<StartRound>(NodeConfirmed{0, 1}).round == 1);
  CHECK(job.on(NodeConfirmed{0, 1}).empty());
}

TEST_CASE("a node that is lost before it has confirmed costs the round, and no worker was started", "[coordinator]") {
  Job job({.nodes_min = 1, .nodes_max = 2});
  job.on(ready(0));
  job.only<FormRound>(ready(1));
  job.on(NodeConfirmed{0, 1});
  CHECK(job.only<EndRound>(lost(1, job.now + 6s)).round == 1);
  CHECK(job.on(NodeConfirmed{1, 1}).empty());
  CHECK(job.on(NodeGone{1}).empty());
  const Round next = job.only<FormRound>(ready(0)).round;
  CHECK(next.number == 2);
  CHECK(ids(next) == Ids{0});
}

TEST_CASE("the first round waits for the last call where more nodes may come", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 4, .last_call = 30s});
  CHECK(job.on(ready(0)).empty());
  CHECK(job.on(ready(1), 5s).empty());
  CHECK(job.coordinator.next_deadline() == job.now + 30s);
  CHECK(job.on(ready(2), 10s).empty());
  CHECK(job.coordinator.next_deadline() == job.now + 20s);  // who comes does not make the others wait longer
  CHECK(ids(job.only<FormRound>(CoordinatorTick{}, 20s).round).size() == 3);
  SECTION("and not where all are there") {
    Job full({.nodes_min = 1, .nodes_max = 2});
    full.on(ready(0));
    full.only<FormRound>(ready(1));
  }
}

TEST_CASE("too few nodes in time end the job with the count and the remedy", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 2, .join_timeout = 60s});
  job.on(ready(0));
  CHECK(job.coordinator.next_deadline() == t0 + 60s);
  CHECK(job.on(CoordinatorTick{}, 59s).empty());
  const Outcome outcome = job.only<EndJob>(CoordinatorTick{}, 1s).outcome;
  CHECK(outcome.verdict == Verdict::too_few_nodes);
  CHECK(outcome.reason == "only 1 of 2 nodes joined in time (--rdzv-conf join_timeout=60)");
}

TEST_CASE("survivors of a lost node regroup at once, with their ranks closed up", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 3});
  CHECK(ids(job.run({7, 5, 9})) == Ids{7, 5, 9});
  CHECK(words_of(job.only<EndRound>(lost(5, job.now + 6s))) == "host5 was lost: its connection was closed");
  CHECK(job.on_ready({9, 7}).empty());  // its workers may live
  CHECK(job.coordinator.attendance()->awaited == std::vector<std::string>{"host5"});
  SECTION("until they are known to be dead") {
    const Round round = job.only<FormRound>(NodeGone{5}).round;
    CHECK(ids(round) == Ids{7, 9});
    CHECK(round.ledger.counts == RestartCounts{.lost_nodes = 1});
    CHECK(seats(round)[1].restarts == 0);
  }
  SECTION("or their time is over") {
    CHECK(job.on(CoordinatorTick{}, 5s).empty());
    CHECK(job.coordinator.next_deadline() == job.now + 1s);
    CHECK(ids(job.only<FormRound>(CoordinatorTick{}, 1s).round) == Ids{7, 9});
  }
  SECTION("or it is back without them") { CHECK(ids(job.only<FormRound>(ready(5)).round) == Ids{7, 5, 9}); }
}

TEST_CASE("too few survivors wait for others, and a newcomer takes the lost one's place", "[coordinator]") {
  Job job(fixed(2));
  job.run({0, 1});
  job.on(lost(1, job.now));
  CHECK(job.on(ready(0)).empty());
  CHECK(ids(job.only<FormRound>(ready(4), 100s).round) == Ids{0, 4});
}

TEST_CASE("too few survivors end the job when nobody comes in time", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 2, .join_timeout = 60s});
  job.run({0, 1});
  job.on(lost(1, job.now), 1000s);
  job.on(ready(0));
  CHECK(job.on(CoordinatorTick{}, 59s).empty());
  CHECK(job.only<EndJob>(CoordinatorTick{}, 1s).outcome.verdict == Verdict::too_few_left);
}

TEST_CASE("a coordinator that begins waits for who looks for another one, until it gives up or asks no more",
          "[coordinator]") {
  Job job(fixed(2));
  CHECK(job.on(JobElsewhere{7, 4}).empty());
  CHECK(job.on_ready({0, 1}).empty());
  SECTION("it gives up") { CHECK(job.only<FormRound>(JobAbandoned{7}).round.number == 5); }
  SECTION("it asks no more") {
    CHECK(job.coordinator.next_deadline() == t0 + kSearchRetryWithin);
    CHECK(job.only<FormRound>(CoordinatorTick{}, kSearchRetryWithin).round.number == 5);
  }
}

TEST_CASE("a job that had a round before asks to be started again where too few come", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 2, .join_timeout = 60s});
  NodeReady survivor = ready(0);
  survivor.offer.rounds = 3;
  job.on(survivor);
  CHECK(job.only<EndJob>(CoordinatorTick{}, 60s).outcome.verdict == Verdict::too_few_left);
}

TEST_CASE("a node that gave up its part comes as another one, and takes its own place", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 2, .fixed_ranks = true});
  job.start(job.form({requesting(10, 0), requesting(11, 1)}));
  CHECK(has<EndRound>(job.on(JobAbandoned{11})));
  CHECK(ids(job.form({requesting(10, 0), requesting(12, 1)})) == Ids{10, 12});
}

TEST_CASE("workers of another job's round of the same number are called back", "[coordinator]") {
  Job job({.nodes_min = 1, .nodes_max = 2});
  job.on(ready(0));
  job.start(job.only<FormRound>(CoordinatorTick{}, 30s).round);
  CHECK(job.only<Recall>(NodeBack{7, 1, ready(7).offer}).node == 7);
}

TEST_CASE("a node that joins ends the round politely and is in the next one", "[coordinator]") {
  Job job({.nodes_min = 1, .nodes_max = 3});
  job.on(ready(0));
  job.start(job.only<FormRound>(CoordinatorTick{}, 30s).round);
  CHECK(words_of(job.only<EndRound>(ready(1), 100s)) == "planned: host1 joins");
  const Round round = job.only<FormRound>(ready(0)).round;
  CHECK(ids(round) == Ids{0, 1});
  CHECK(round.ledger.counts == RestartCounts{.resizes = 1});
}

TEST_CASE("a node too many is a spare, takes over when one is lost, and ends with the job", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 2});
  job.run({0, 1});
  CHECK(job.on(ready(2)).empty());
  SECTION("needed") {
    job.only<EndRound>(lost(0, job.now));
    job.on(NodeGone{0});
    CHECK(ids(job.only<FormRound>(ready(1)).round) == Ids{1, 2});
  }
  SECTION("not needed") {
    job.on(NodeDone{0, 1});
    CHECK(job.only<EndJob>(NodeDone{1, 1}).outcome.verdict == Verdict::success);
  }
}

TEST_CASE("a node that leaves is let go when its workers are gone, where enough others stay", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 3});
  job.run({0, 1, 2});
  CHECK(words_of(job.only<EndRound>(NodeLeaves{1, SIGTERM})) == "planned: host1 leaves");
  CHECK(job.on(NodeLeaves{1, SIGTERM}).empty());
  const std::vector<Order> orders = job.on_ready({0, 2, 1});
  REQUIRE(orders.size() == 2);
  const auto& dismissed = std::get<Dismiss>(orders[0]);
  CHECK(dismissed.node == 1);
  CHECK(dismissed.outcome.verdict == Verdict::interrupted);
  CHECK(dismissed.outcome.signal == SIGTERM);
  CHECK(ids(std::get<FormRound>(orders[1]).round) == Ids{0, 2});
}

TEST_CASE("a node that was out of reach is told that its round is over, and is waited for", "[coordinator]") {
  Job job({.nodes_min = 1, .nodes_max = 2});
  job.run({0, 1});
  job.on(lost(1, job.now + 6s));
  job.on(ready(0));
  const Recall recall = job.only<Recall>(NodeBack{1, 1, ready(1).offer});
  CHECK(recall.node == 1);
  CHECK(recall.round == 1);
  CHECK(job.on(CoordinatorTick{}, 7s).empty());  // its workers live: the fence is its own word now
  CHECK(ids(job.only<FormRound>(ready(1)).round) == Ids{0, 1});
}

TEST_CASE("a node whose rank went to another while it was away is let go once its workers are gone", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 2, .fixed_ranks = true});
  job.start(job.form({requesting(0, 0), requesting(1, 1)}));
  job.on(lost(1, job.now + 6s));
  job.on(requesting(0, 0));
  job.on(requesting(2, 1));  // in its place
  job.only<Recall>(NodeBack{1, 1, requesting(1, 1).offer});
  CHECK(job.on(CoordinatorTick{}, 7s).empty());
  const std::vector<Order> orders = job.on(requesting(1, 1));
  REQUIRE(orders.size() == 2);
  CHECK(std::get<Dismiss>(orders[0]).outcome.verdict == Verdict::refused);
  CHECK(ids(std::get<FormRound>(orders[1]).round) == Ids{0, 2});
}

TEST_CASE("a node that leaves ends the job where too few would stay", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 3});
  job.on(ready(0));
  job.on(ready(1));
  job.start(job.only<FormRound>(CoordinatorTick{}, 30s).round);
  const Outcome outcome = job.only<EndJob>(NodeLeaves{1, SIGTERM}).outcome;
  CHECK(outcome.verdict == Verdict::interrupted);
  CHECK(outcome.signal == SIGTERM);
}

TEST_CASE("who comes after the end is told of it", "[coordinator]") {
  Job job({});
  job.run({0});
  job.on(NodeDone{0, 1});
  const Outcome late = job.only<Dismiss>(ready(1)).outcome;
  CHECK(late.verdict == Verdict::success);
  CHECK(late.late);
  CHECK(late.reason == "it had ended before this node joined: all workers succeeded");
  CHECK_FALSE(job.only<Dismiss>(ready(0)).outcome.late);
}

TEST_CASE("a node that is done may go, but not group rank 0's, which has the store", "[coordinator]") {
  Job job({.nodes_min = 1, .nodes_max = 2});
  job.run({0, 1});
  const NodeId done = GENERATE(0, 1);
  job.on(NodeDone{done, 1});
  const auto orders = job.on(lost(done, job.now));
  CHECK(has<EndRound>(orders) == (done == 0));
  if (done == 1) CHECK(job.only<EndJob>(NodeDone{0, 1}).outcome.verdict == Verdict::success);
}

TEST_CASE("in a static job the node rank is the group rank", "[coordinator]") {
  Job job({.nodes_min = 3, .nodes_max = 3, .fixed_ranks = true});
  CHECK(ids(job.start(job.form({requesting(10, 2), requesting(11, 0), requesting(12, 1)}))) == Ids{11, 12, 10});
  job.on(lost(11, job.now));
  CHECK(ids(job.form({requesting(12, 1), requesting(10, 2), requesting(13, 0)})) == Ids{13, 12, 10});
}

TEST_CASE("one task more of a step than the job takes is refused at once, with those that are in", "[coordinator]") {
  const auto task = [](NodeId node, const std::string& step = "step 7.0") {
    NodeReady message = ready(node);
    message.offer.step = step;
    return message;
  };
  Job job({.nodes_min = 2, .nodes_max = 2});
  job.on(task(0));
  job.on(task(1));
  const Outcome third = job.only<Dismiss>(task(2)).outcome;
  CHECK(third.verdict == Verdict::refused);
  CHECK(third.reason.starts_with("of step 7.0 the job has its 2 nodes, host0 and host1, and host2 is one more: "));
  CHECK(job.on(task(3, "")).empty());          // by hand: a spare
  CHECK(job.on(task(4, "step 7.1")).empty());  // or another step, to replace lost nodes

  for (const RoundPolicy& policy :
       {RoundPolicy{.nodes_min = 2, .nodes_max = 2, .spares = 1}, RoundPolicy{.nodes_min = 1, .nodes_max = 2}}) {
    Job other(policy);
    other.on(task(0));
    other.on(task(1));
    CHECK(other.on(task(2)).empty());  // meant to wait
  }
  Job replaced({.nodes_min = 2, .nodes_max = 2});
  replaced.start(replaced.form({task(0), task(1)}));
  replaced.on(lost(1, replaced.now));
  CHECK(ids(replaced.form({task(0), task(2)})) == Ids{0, 2});
}

TEST_CASE("a node rank that another node has, or that there is not, is refused with both names", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 2, .fixed_ranks = true});
  job.on(requesting(0, 1));
  const Outcome twice = job.only<Dismiss>(requesting(1, 1)).outcome;
  CHECK(twice.verdict == Verdict::refused);
  CHECK(twice.reason ==
        "node rank 1 is requested by host1 and already held by host0; give each node a --node-rank of its own");
  CHECK(job.only<Dismiss>(requesting(2, 2)).outcome.reason ==
        "node rank 2 of host2 is not one of the job's 2 (0 to 1)");
  CHECK(has<FormRound>(job.on(requesting(3, 0))));
}

TEST_CASE("a spare of a static job has a rank above the others, and takes the place of a lost node", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 2, .spares = 1, .fixed_ranks = true});
  CHECK(ids(job.start(job.form({requesting(10, 0), requesting(11, 1)}))) == Ids{10, 11});
  CHECK(job.on(requesting(12, 2)).empty());  // it waits
  CHECK(job.only<Dismiss>(requesting(13, 3)).outcome.reason ==
        "node rank 3 of host13 is not one of the job's 3 (0 to 2)");
  job.on(lost(11, job.now));
  CHECK(ids(job.start(job.only<FormRound>(requesting(10, 0)).round)) == Ids{10, 12});
  CHECK(job.on(requesting(14, 1)).empty());  // the lost one's machine: now the spare
}

TEST_CASE("a job does not wait for a node while a spare is there", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 2, .spares = 1, .fixed_ranks = true});
  CHECK(ids(job.form({requesting(12, 2), requesting(10, 0)})) == Ids{10, 12});
}

TEST_CASE("in an elastic job the node rank is a wish: survivors keep their order, and their head stays",
          "[coordinator]") {
  Job job({.nodes_min = 1, .nodes_max = 3});
  CHECK(ids(job.start(job.form({requesting(30, 3), requesting(20, 2), requesting(10, 1)}))) == Ids{10, 20, 30});
  SECTION("one from the middle comes back to it") {
    job.on(lost(20, job.now));
    CHECK(ids(job.form({requesting(21, 2), requesting(10, 1), requesting(30, 3)})) == Ids{10, 21, 30});
  }
  SECTION("the head's place is taken") {
    job.on(lost(10, job.now));
    CHECK(ids(job.form({requesting(11, 1), requesting(20, 2), requesting(30, 3)})) == Ids{20, 11, 30});
  }
}

TEST_CASE("a loss that is noticed when its workers are long dead holds nobody up", "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 3});
  job.run({7, 5, 9});
  job.only<EndRound>(failure(1, {.code = 1}, 7));
  job.now += 5min;
  for (const NodeId node : {7, 9}) job.on(ready(node));
  CHECK(ids(job.only<FormRound>(lost(5, job.now - 1s)).round) == Ids{7, 9});
}

TEST_CASE("people can be told who is there and who is waited for", "[coordinator]") {
  Job job(fixed(3));
  job.on(ready(0, 4));
  job.on(ready(1, 4));
  const Attendance here = *job.coordinator.attendance();
  CHECK(here.nodes == 2);
  CHECK(here.nodes_wanted == 3);
  CHECK(here.workers == 8);
  CHECK(here.awaited.empty());
  job.on(ready(2, 4));
  CHECK_FALSE(job.coordinator.attendance());
}

TEST_CASE("of a static job the ranks that nobody has are named, the first of them", "[coordinator]") {
  Job job({.nodes_min = 20, .nodes_max = 20, .fixed_ranks = true});
  job.on(requesting(1, 0));
  job.on(requesting(2, 3));
  const Attendance here = *job.coordinator.attendance();
  CHECK(here.awaited ==
        std::vector<std::string>{"node 1", "node 2", "node 4", "node 5", "node 6", "node 7", "node 8", "node 9"});
  CHECK(here.awaited_more == 10);
}

TEST_CASE("of many nodes that are waited for some are named and the others counted", "[coordinator]") {
  const int many = static_cast<int>(kAwaitedNamesMax) + 10;
  Job job(fixed(many));
  Ids nodes;
  for (int i = 0; i < many; ++i) nodes.push_back(static_cast<NodeId>(i));
  job.run(nodes);
  job.on(failure(1, {.code = 1}));
  const Attendance here = *job.coordinator.attendance();
  CHECK(here.awaited.size() == kAwaitedNamesMax);
  CHECK(here.awaited_more == 10);
}

TEST_CASE("a failure ends the round, and the next one has a new number, a new store and the restart counted",
          "[coordinator]") {
  Job job({});
  job.start(job.only<FormRound>(ready(0, 2, 1000)).round);
  const EndRound end = job.only<EndRound>(failure(1, {.signal = SIGKILL}), 1s);
  CHECK(end.round == 1);
  CHECK_FALSE(end.planned);
  const Round round = job.only<FormRound>(ready(0, 2, 2000)).round;
  CHECK(round.number == 2);
  CHECK(round.master_port == 2000);
  CHECK(round.ledger.counts == RestartCounts{.crashes = 1});
  job.start(round);
  job.only<EndRound>(failure(2, {.hung = true}));
  CHECK(job.only<FormRound>(ready(0)).round.ledger.counts == RestartCounts{.crashes = 1, .hangs = 1});
}

TEST_CASE("a failure of a round that is over changes nothing", "[coordinator]") {
  Job job({});
  job.run({0});
  job.on(failure(1, {.signal = SIGKILL}));
  CHECK(job.on(failure(1, {.code = 1})).empty());  // between the rounds
  job.run({0});
  CHECK(job.on(failure(1, {.code = 1})).empty());  // in the next one
  CHECK(job.on(NodeDone{0, 1}).empty());
}

TEST_CASE("the job succeeds when every node is done, not before", "[coordinator]") {
  Job job(fixed(2));
  job.run({0, 1});
  CHECK(job.on(NodeDone{1, 1}).empty());
  CHECK(job.on(NodeDone{1, 1}).empty());
  CHECK(job.only<EndJob>(NodeDone{0, 1}).outcome.verdict == Verdict::success);
}

TEST_CASE("a worker's exit code that says so ends the job for good", "[coordinator]") {
  for (const int code : {73, 2}) {
    Job job({});
    job.run({0});
    const Outcome outcome = job.only<EndJob>(failure(1, {.code = code}), 1s).outcome;
    CHECK(outcome.verdict == Verdict::worker_final);
    REQUIRE(outcome.cause);
    CHECK(outcome.cause->status.code == code);
  }
}

TEST_CASE("a rule decides about a failure before the ledger does", "[coordinator]") {
  Job job({});
  job.run({0});
  SECTION("stop") {
    const Outcome stopped = job.only<EndJob>(by_rule(RuleAction::stop, failure(1, {.signal = SIGSEGV}))).outcome;
    CHECK(stopped.verdict == Verdict::worker_final);
    CHECK(stopped.reason == "the rule at job.toml:7 says stop");
    CHECK(stopped.cause->kind == FailureClass::crash);
  }
  SECTION("requeue") {
    const WorkerFailed failed = by_rule(RuleAction::requeue, failure(1, {.code = 1}));
    CHECK(job.only<EndJob>(failed).outcome.verdict == Verdict::requeue);
  }
  SECTION("restart, where it were a usage error else") {
    const EndRound end = job.only<EndRound>(by_rule(RuleAction::restart, failure(1, {.code = 2})));
    CHECK(end.reason == "restart 1 of 3");
    CHECK(end.cause->kind == FailureClass::usage);
  }
}

TEST_CASE("a lost node can be limited, and rules can be about it", "[coordinator]") {
  RoundPolicy policy = fixed(2);
  policy.restarts.limits = {{FailureClass::lost_node, {0, {}}}};
  Job limited(policy);
  limited.run({0, 1});
  CHECK(limited.only<EndJob>(lost(1, t0)).outcome.verdict == Verdict::too_few_left);
  policy.restarts.limits.clear();
  policy.rules = {{.classes = {FailureClass::lost_node}, .action = RuleAction::stop, .place = "job.toml:7"}};
  Job ruled(policy);
  ruled.run({0, 1});
  const Outcome outcome = ruled.only<EndJob>(lost(1, t0)).outcome;
  CHECK(outcome.verdict == Verdict::stopped);
  CHECK(outcome.reason == "host1 was lost: its connection was closed, and the rule at job.toml:7 says stop");
}

TEST_CASE("a machine where workers fail too often is left out while enough others are there", "[coordinator]") {
  RoundPolicy policy{.nodes_min = 2, .nodes_max = 3};
  policy.restarts.max_restarts = 9;
  policy.exclusion = {.failures = 2, .within = 1h, .lasts = 30min};
  Job job(policy);
  job.run({0, 1, 2});
  const auto fail_on_1 = [&](int round) {
    job.only<EndRound>(failure(round, {.signal = SIGKILL}, 1), 1min);
    job.on(ready(0));
    job.on(ready(2));
    return job.on(ready(1), 1min);
  };
  const Round second = std::get<FormRound>(fail_on_1(1).front()).round;
  CHECK(ids(second) == Ids{0, 1, 2});
  job.start(second);
  const std::vector<Order> orders = fail_on_1(2);
  REQUIRE(orders.size() == 2);
  const Round third = std::get<FormRound>(orders[0]).round;
  CHECK(ids(third) == Ids{0, 2});
  CHECK(third.ledger.excluded.front().host == "host1");
  CHECK(std::get<Exclude>(orders[1]).node == 1);
  CHECK(std::get<Exclude>(orders[1]).why == "failures of workers there: 2 in 1 h");
  job.start(third);

  SECTION("also if its agent is started again") {
    job.on(lost(1, job.now));
    NodeReady again = ready(9);
    again.offer.host = "host1";
    CHECK(job.only<Exclude>(again).node == 9);
  }
  SECTION("and joins again when its time is over") {
    CHECK(job.coordinator.next_deadline() == job.now + 29min);  // a minute passed until the round formed
    CHECK(words_of(job.only<EndRound>(CoordinatorTick{}, 29min)) == "planned: host1 joins again");
    CHECK(ids(job.form({0, 2})) == Ids{0, 2, 1});
  }
  SECTION("but is taken where too few others are left") {
    job.on(lost(2, job.now + 5s));
    CHECK(ids(job.only<FormRound>(ready(0), 5s).round) == Ids{0, 1});
  }
  SECTION("and a coordinator that takes over knows it") {
    Job other(policy);
    other.coordinator = Coordinator(policy, job.now, 0, 2, {1, third, job.now + 5s, 10min});
    other.now = job.now;
    const std::vector<Order> formed = other.on_ready({0, 1, 2});
    CHECK(ids(std::get<FormRound>(formed.front()).round) == Ids{0, 2});
  }
}

// Else those that are left out could elect a coordinator by the old round's record: they would be a quorum of it.
TEST_CASE("a machine is left out only where the others are a quorum of the round before", "[coordinator]") {
  Job job({.nodes_min = 1, .nodes_max = 2});
  job.run({0, 1});
  // On the coordinator's own node.
  job.only<EndRound>(by_rule(RuleAction::restart_elsewhere, failure(1, {.signal = SIGBUS}, 0)));
  CHECK(ids(job.form({0, 1})) == Ids{0, 1});
}

TEST_CASE("where the others are no quorum, a node that is unfit is waited for, until the limit", "[coordinator]") {
  Job job({.nodes_min = 1, .nodes_max = 2, .join_timeout = 600s});
  job.run({0, 1});
  job.only<EndRound>(failure(1, {.signal = SIGBUS}, 0));
  job.on(unfit(0, "no disk space"));
  CHECK(job.on(ready(1)).empty());
  CHECK(job.only<EndJob>(CoordinatorTick{}, 600s).outcome.verdict == Verdict::too_few_left);
}

TEST_CASE("rounds that end without a failure earn restarts back, too", "[coordinator]") {
  RoundPolicy policy{.nodes_min = 1, .nodes_max = 2};
  policy.restarts.max_restarts = 1;
  Job job(policy);
  job.run({0, 1});
  job.only<EndRound>(failure(1, {.code = 1}, 0));
  job.run({1, 0});
  job.on(lost(1, job.now), 61min);
  job.start(job.only<FormRound>(ready(0)).round);
  CHECK(job.only<EndRound>(failure(3, {.code = 3}, 0)).reason == "restart 1 of 1");
}

TEST_CASE("a rule excludes a machine at its first failure", "[coordinator]") {
  Job job({.nodes_min = 1, .nodes_max = 2});
  job.run({0, 1});
  job.only<EndRound>(by_rule(RuleAction::restart_elsewhere, failure(1, {.signal = SIGBUS}, 1)));
  const std::vector<Order> orders = job.on_ready({0, 1});
  CHECK(ids(std::get<FormRound>(orders.front()).round) == Ids{0});
  CHECK(std::get<Exclude>(orders.back()).why == "a rule says restart-elsewhere");
}

namespace {

// Windows of three nodes with one rank each, in which rank 1 computes twice as long, until one is named.
std::vector<Order> until_one_is_named(Job& job, int round) {
  for (int window = 0; window < 10; ++window)
    for (const NodeId node : {0, 1, 2}) {
      const std::uint64_t compute = node == 1 ? 2'000'000 : 1'000'000;
      std::vector<Order> orders =
          job.on(NodePace{node, round, {{static_cast<int>(node), 40, 1000, compute, 2'100'000 - compute}}}, 700ms);
      if (!orders.empty()) return orders;
    }
  return {};
}

}  // namespace

TEST_CASE("a straggler is reported to the agent of group rank 0", "[coordinator]") {
  RoundPolicy policy{.nodes_min = 2, .nodes_max = 3};
  policy.stragglers = GENERATE(StragglerPolicy::say, StragglerPolicy::dry_run, StragglerPolicy::off);
  Job job(policy);
  job.run({0, 1, 2});
  const std::vector<Order> orders = until_one_is_named(job, 1);
  REQUIRE(orders.size() == (policy.stragglers == StragglerPolicy::off ? 0 : 1));
  if (orders.empty()) return;
  const ReportPace report = std::get<ReportPace>(orders[0]);
  CHECK(report.node == 0);
  CHECK(report.round == 1);
  CHECK(report.host == "host1");
  CHECK(report.change == PaceChange{PaceChange::Kind::straggler, 1, Activity::compute, 200, 160});
  const bool dry = policy.stragglers == StragglerPolicy::dry_run;
  CHECK(report.then == (dry ? "--stragglers=replace would go on without host1" : ""));
}

TEST_CASE("the node of a straggler is replaced by a spare, or left out while enough others are there",
          "[coordinator]") {
  const bool spare = GENERATE(true, false);
  RoundPolicy policy{.nodes_min = spare ? 3 : 2, .nodes_max = 3, .stragglers = StragglerPolicy::replace};
  Job job(policy);
  job.run({0, 1, 2});
  if (spare) CHECK(job.on(ready(3)).empty());
  const std::vector<Order> orders = until_one_is_named(job, 1);
  REQUIRE(orders.size() == 2);
  CHECK(std::get<ReportPace>(orders[0]).then.empty());
  CHECK(words_of(std::get<EndRound>(orders[1])) == "planned: host1 is left out (--stragglers=replace)");
  CHECK(job.coordinator.ledger().counts().crashes == 0);
  const std::vector<Order> formed = job.on_ready({0, 1, 2});
  CHECK(ids(std::get<FormRound>(formed.at(0)).round) == (spare ? Ids{0, 2, 3} : Ids{0, 2}));
  CHECK(std::get<Exclude>(formed.at(1)).node == 1);
}

TEST_CASE("the node of a straggler stays where too few others are left", "[coordinator]") {
  RoundPolicy policy = fixed(3);
  policy.stragglers = GENERATE(StragglerPolicy::replace, StragglerPolicy::dry_run);
  Job job(policy);
  job.run({0, 1, 2});
  const std::vector<Order> orders = until_one_is_named(job, 1);
  REQUIRE(orders.size() == 1);
  CHECK_THAT(std::get<ReportPace>(orders[0]).then, Catch::EndsWith(", as too few others are left"));
}

TEST_CASE("the pace of other nodes' ranks, or of another round, is ignored", "[coordinator]") {
  Job job(fixed(3));
  job.run({0, 1, 2});
  for (int window = 0; window < 20; ++window) {
    CHECK(until_one_is_named(job, 2).empty());
    CHECK(
        job.on(NodePace{0, 1, {{0, 40, 0, 1'000'000, 0}, {1, 40, 0, 5'000'000, 0}, {2, 40, 0, 1'000'000, 0}}}).empty());
  }
}

TEST_CASE("a node that does not pass its health check is in no round until it does, and holds none up",
          "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 3, .join_timeout = 600s, .last_call = 5s});
  const NodeReady sick = unfit(1, "exit code 1: no memory on GPU 3");
  CHECK(job.on(ready(0)).empty());
  CHECK(job.on(sick).empty());
  CHECK(job.coordinator.attendance()->nodes == 1);
  CHECK(job.coordinator.attendance()->awaited == std::vector<std::string>{"host1 (exit code 1: no memory on GPU 3)"});
  CHECK(job.on(ready(2)).empty());  // last call
  const Round first = job.only<FormRound>(CoordinatorTick{}, 5s).round;
  CHECK(ids(first) == Ids{0, 2});
  job.start(first);
  CHECK(job.on(sick).empty());
  CHECK(job.only<EndRound>(ready(1)).reason == "host1 joins");
  CHECK(ids(job.form({0, 2})) == Ids{0, 2, 1});
}

TEST_CASE("a job whose nodes do not pass their health checks in time ends", "[coordinator]") {
  Job job({.join_timeout = 600s});
  CHECK(job.on(unfit(0, "exit code 1")).empty());
  const Outcome outcome = job.only<EndJob>(CoordinatorTick{}, 600s).outcome;
  CHECK(outcome.verdict == Verdict::too_few_nodes);
  CHECK(outcome.reason ==
        "only 0 of 1 nodes joined in time (--rdzv-conf join_timeout=600); host0 cannot take part (exit code 1)");
}

TEST_CASE("a rule can leave a lost node's machine out when it comes back", "[coordinator]") {
  RoundPolicy policy{.nodes_min = 2, .nodes_max = 3};
  policy.rules = {
      {.classes = {FailureClass::lost_node}, .action = RuleAction::restart_elsewhere, .place = "job.toml:7"}};
  Job job(policy);
  job.run({0, 1, 2});
  job.only<EndRound>(lost(1, job.now));
  job.run({0, 2});
  CHECK(job.only<Exclude>(ready(1)).why == "a rule says restart-elsewhere");
}

TEST_CASE("a job begins with what its earlier starts have spent", "[coordinator]") {
  RoundPolicy policy{};
  policy.restarts.max_restarts = 1;
  policy.earlier_starts = {.counts = {.crashes = 1}, .charges = {{FailureClass::crash, 1, 1s}}};
  Job job(policy);
  job.run({0});
  const Outcome outcome = job.only<EndJob>(failure(1, {.code = 1})).outcome;
  CHECK(outcome.verdict == Verdict::worker_failed);
  CHECK(outcome.reason == "all restarts are used up (1 of 1)");
}

TEST_CASE("the same exit code with the same last line, twice in a row, ends the job however long the rounds lived",
          "[coordinator]") {
  Job job({});
  WorkerFailed failed = failure(1, {.code = 3});
  failed.failure.last_line = "KeyError: 'lr'";
  job.run({0});
  job.only<EndRound>(failed, 1h);
  job.start(job.only<FormRound>(ready(0)).round);
  failed.failure.round = 2;
  CHECK(job.only<EndJob>(failed, 1h).outcome.reason.ends_with("with the same last line of stderr"));
}

TEST_CASE("the same failure twice ends the job with its cause, unless the round had lived long enough",
          "[coordinator]") {
  Job job({});
  job.run({0});
  job.only<EndRound>(failure(1, {.code = 3}), 1s);
  const Round round = job.only<FormRound>(ready(0)).round;
  SECTION("it lived 9.9 s after its last exec") {
    job.start(round);
    const Outcome outcome = job.only<EndJob>(failure(2, {.code = 3}), 9s + 900ms).outcome;
    CHECK(outcome.verdict == Verdict::worker_failed);
    REQUIRE(outcome.cause);
    CHECK(outcome.cause->round == 2);
  }
  SECTION("it lived 10 s") {
    job.start(round);
    job.only<EndRound>(failure(2, {.code = 3}), 10s);
  }
  SECTION("it was young, and its workers had told of a step") {
    job.start(round);
    job.only<EndRound>(WorkerFailed{{2, 0, 0, 0, {.code = 3}}, true}, 1s);
  }
  SECTION("it was old, and its workers, who would tell, had told of none") {
    job.start(round);
    job.only<EndJob>(WorkerFailed{{2, 0, 0, 0, {.code = 3}}, false}, 60s);
  }
  SECTION("its workers had not all been started") { job.only<EndJob>(failure(2, {.code = 3}), 60s); }
}

TEST_CASE("a failure that repeats after progress is waited out before the next round", "[coordinator]") {
  Job job({.restarts = {.max_restarts = 5}});
  for (int round = 1; round <= 2; ++round) {
    job.run({0});
    job.only<EndRound>(failure(round, {.signal = SIGKILL}), 11s);
  }
  CHECK(job.on(ready(0)).empty());
  const auto deadline = job.coordinator.next_deadline();
  REQUIRE(deadline);
  CHECK(*deadline > job.now);
  CHECK(job.on(CoordinatorTick{}).empty());
  job.only<FormRound>(CoordinatorTick{}, *deadline - job.now);
}

TEST_CASE("an interruption ends the job in every state", "[coordinator]") {
  Job job({});
  if (GENERATE(false, true)) job.on(ready(0));
  const Outcome outcome = job.only<EndJob>(JobInterrupted{0, SIGINT}).outcome;
  CHECK(outcome.verdict == Verdict::interrupted);
  CHECK(outcome.signal == SIGINT);
}

namespace {

Round record_of(const Ids& nodes, NodeId coordinator, int number) {
  Round round{.number = number, .coordinator = coordinator};
  for (const NodeId id : nodes)
    round.nodes.push_back(
        {.id = id, .first_rank = static_cast<int>(round.nodes.size()), .name = "n" + std::to_string(id)});
  return round;
}

NodeBack back(NodeId node, int round) { return {node, round, ready(node).offer}; }

// Elected by what the one before left behind.
struct Successor : Job {
  Successor(const RoundPolicy& policy, NodeId self, const Round& record) : Job(policy) {
    coordinator = Coordinator(policy, t0, 0, self, {1, record, t0 + 6s});
  }
};

}  // namespace

TEST_CASE("an elected coordinator calls back who still works for the one before, and goes on in the ranks they had",
          "[coordinator]") {
  Round record = record_of({1, 2, 3}, 1, 4);
  record.ledger.counts.crashes = 2;
  Successor job({.nodes_min = 2, .nodes_max = 3}, 2, record);
  CHECK(job.only<Recall>(back(3, 4)).reason == "n1, the coordinator, was lost");
  CHECK(job.only<Recall>(back(2, 4)).round == 4);
  CHECK(job.on(ready(3)).empty());
  CHECK(job.on(ready(2)).empty());  // node 1's workers may live
  const Round round = job.only<FormRound>(NodeGone{1}).round;
  CHECK(round.number == 5);
  CHECK(round.term == 1);
  CHECK(round.coordinator == 2);
  CHECK(ids(round) == Ids{2, 3});
  CHECK(round.ledger.counts == RestartCounts{.crashes = 2, .lost_nodes = 1});
  CHECK(round.previous_electorates == std::vector<Electorate>{{1, {2, 3}}});  // of round 4, without the gone node
}

TEST_CASE("an elected coordinator waits as long as workers out of its reach may live", "[coordinator]") {
  Successor job({.nodes_min = 2, .nodes_max = 3}, 2, record_of({1, 2, 3}, 1, 4));
  CHECK(job.on_ready({2, 3}).empty());
  REQUIRE(job.coordinator.next_deadline() == t0 + 6s);
  CHECK(job.only<FormRound>(CoordinatorTick{}, 6s).round.number == 5);
}

TEST_CASE("all are told when each of them has heard the job's end", "[coordinator][job_end]") {
  Job job(fixed(3));
  job.run({0, 1, 2});
  const EndJob end = job.only<EndJob>(JobInterrupted{2, SIGINT});  // on any node
  CHECK(end.for_all);
  CHECK(end.outcome.signal == SIGINT);
  CHECK(job.on(NodeNotified{0}).empty());
  CHECK(job.on(NodeNotified{2}).empty());
  CHECK_FALSE(job.coordinator.all_notified());
  SECTION("the last one, too") {
    job.only<AllNotified>(NodeNotified{1});
    CHECK(job.coordinator.all_notified());
  }
  SECTION("or it is lost, and the coordinator stays until that one is back") {
    job.only<AllNotified>(lost(1, job.now + 6s));
    CHECK_FALSE(job.coordinator.all_notified());
    CHECK(job.coordinator.awaits(1));
    CHECK(job.only<Dismiss>(NodeBack{1, 1, ready(1).offer}).for_all);
    CHECK_FALSE(job.coordinator.all_notified());
    job.only<AllNotified>(NodeNotified{1});
    CHECK(job.coordinator.all_notified());
  }
  SECTION("or dead") {
    job.on(lost(1, job.now + 6s));
    job.on(NodeGone{1});
    CHECK(job.coordinator.all_notified());
  }
  SECTION("or its workers must be dead by now") {
    job.on(lost(1, job.now + 6s));
    CHECK(job.coordinator.next_deadline() == job.now + 6s);
    job.on(CoordinatorTick{}, 6s);
    CHECK(job.coordinator.all_notified());
  }
}

TEST_CASE("who has heard the job's end and is lost then, or leaves, is not waited for", "[coordinator][job_end]") {
  Job job(fixed(2));
  job.run({0, 1});
  job.on(JobInterrupted{0, SIGINT});
  job.on(NodeNotified{0});
  job.on(NodeNotified{1});
  CHECK(job.on(lost(1, job.now + 6s)).empty());
  CHECK(job.coordinator.all_notified());
  CHECK_FALSE(job.coordinator.awaits(1));
}

TEST_CASE("a coordinator needs no contact to those that have heard the job's end and left", "[coordinator][job_end]") {
  Job job(fixed(3));
  job.coordinator = Coordinator(fixed(3), t0, 0, 1);
  job.run({1, 2, 3});
  job.on(JobInterrupted{1, SIGINT});
  CHECK(job.coordinator.electorates() == std::vector<Electorate>{{1, {1, 2, 3}}});
  job.on(NodeNotified{1});
  CHECK(job.coordinator.electorates() == std::vector<Electorate>{{1, {1, 2, 3}}});
  job.on(NodeNotified{3});
  CHECK(job.coordinator.electorates().empty());
}

TEST_CASE("whoever is elected ends the job as a node says that it ended", "[coordinator][job_end]") {
  const Outcome success{Verdict::success, 0, "all workers succeeded", {}};
  SECTION("one that does not know it") {
    Successor job({.nodes_min = 2, .nodes_max = 3}, 2, record_of({1, 2, 3}, 1, 4));
    job.on(back(2, 4));
    const EndJob end = job.only<EndJob>(JobWasOver{3, success});
    CHECK(end.for_all);
    CHECK(end.outcome.verdict == Verdict::success);
    CHECK(job.on(NodeNotified{2}).empty());  // node 1 may live, and not know
    CHECK_FALSE(job.coordinator.all_notified());
    job.only<AllNotified>(NodeGone{1});
    CHECK(job.coordinator.all_notified());
  }
  SECTION("or itself") {
    Job job({});
    job.coordinator =
        Coordinator({.nodes_min = 2, .nodes_max = 3}, t0, 0, 2, {1, record_of({1, 2, 3}, 1, 4), t0 + 6s, {}, success});
    CHECK(job.coordinator.is_over());
    CHECK(job.on(JobWasOver{2, success}).empty());  // our own agent
    job.on(NodeGone{1});
    CHECK_FALSE(job.coordinator.all_notified());
    const Dismiss end = job.only<Dismiss>(back(3, 4));
    CHECK(end.for_all);
    CHECK(end.outcome.verdict == Verdict::success);
    CHECK_FALSE(end.outcome.late);
    job.only<AllNotified>(NodeNotified{3});
    CHECK(job.coordinator.all_notified());
  }
}

TEST_CASE("no round forms without a quorum of the last one, except of those that are known to be gone",
          "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 5});
  job.coordinator = Coordinator({.nodes_min = 2, .nodes_max = 5}, t0, 0, 1);
  job.run({1, 2, 3, 4, 5});
  for (const NodeId node : {3, 4, 5}) job.on(lost(node, job.now + 6s));
  CHECK(job.on_ready({1, 2}).empty());
  CHECK(job.on(CoordinatorTick{}, 7s).empty());  // their workers are dead; they may have elected another coordinator
  CHECK(job.on(ready(8)).empty());               // who was not there cannot help
  const Round round = job.only<FormRound>(NodeGone{3}).round;  // now half of four, with the coordinator
  CHECK(ids(round) == Ids{1, 2, 8});
  CHECK(round.previous_electorates == std::vector<Electorate>{{1, {1, 2, 4, 5}}});
}

TEST_CASE("until all have confirmed a round, those before it count, too", "[coordinator]") {
  Job job({.nodes_min = 1, .nodes_max = 4});
  job.coordinator = Coordinator({.nodes_min = 1, .nodes_max = 4}, t0, 0, 1);
  const auto electorates = [&] { return job.coordinator.electorates(); };
  CHECK(electorates().empty());
  job.on(ready(1));
  job.on(ready(2));
  job.start(job.only<FormRound>(CoordinatorTick{}, 30s).round);
  CHECK(electorates() == std::vector<Electorate>{{1, {1, 2}}});
  job.on(ready(3));  // joins
  job.on(ready(1));
  job.only<FormRound>(ready(2));
  CHECK(electorates() == std::vector<Electorate>{{1, {1, 2}}, {1, {1, 2, 3}}});
  for (const NodeId node : {1, 2, 3}) job.on(NodeConfirmed{node, 2});
  CHECK(electorates() == std::vector<Electorate>{{1, {1, 2, 3}}});
}

TEST_CASE("a coordinator whose node leaves forms the next round for another one, and hands over to it",
          "[coordinator]") {
  const RoundPolicy policy{.nodes_min = 1, .nodes_max = 3};
  Job job(policy);
  job.coordinator = Coordinator(policy, t0, 0, 1);
  job.run({1, 2, 3});
  CHECK(job.only<EndRound>(NodeLeaves{1, SIGTERM}).planned);
  const std::vector<Order> orders = job.on_ready({2, 3, 1});
  REQUIRE(orders.size() == 2);
  CHECK(std::get<Dismiss>(orders[0]).node == 1);
  const Round round = std::get<FormRound>(orders[1]).round;
  CHECK(ids(round) == Ids{2, 3});
  CHECK(round.coordinator == 2);
  job.on(NodeConfirmed{2, 2});
  CHECK(job.only<HandOver>(NodeConfirmed{3, 2}).successor == 2);
  CHECK(job.on(ready(9)).empty());  // it is no coordinator any more

  Successor next(policy, 2, round);
  next.on(ready(2));
  const Round after = next.only<FormRound>(ready(3)).round;  // nobody is missing
  CHECK(after.number == 3);
  CHECK(after.ledger.counts == RestartCounts{.preemptions = 1});
}

TEST_CASE("a coordinator that is lost is a lost node, for rules and limits, too", "[coordinator]") {
  RoundPolicy policy{.nodes_min = 1, .nodes_max = 3};
  const auto take_over = [&] { return Coordinator(policy, t0, 0, 2, {1, record_of({1, 2, 3}, 1, 4), t0 + 6s}); };
  CHECK_FALSE(take_over().is_over());
  policy.restarts.limits = {{FailureClass::lost_node, {0, {}}}};
  const Coordinator limited = take_over();
  REQUIRE(limited.is_over());
  CHECK(limited.outcome()->verdict == Verdict::too_few_left);
  policy.restarts.limits.clear();
  policy.rules = {{.classes = {FailureClass::lost_node}, .action = RuleAction::stop, .place = "job.toml:7"}};
  const Coordinator ruled = take_over();
  REQUIRE(ruled.is_over());
  CHECK(ruled.outcome()->verdict == Verdict::stopped);
}

TEST_CASE("nodes that are no majority of the last round's say so", "[coordinator]") {
  Job job({.nodes_min = 1, .nodes_max = 4, .join_timeout = 600s});
  job.run({0, 1, 2, 3});
  job.only<EndRound>(failure(1, {.code = 3}, 3));
  CHECK(job.on(ready(3)).empty());
  for (const NodeId node : {0, 1, 2}) CHECK(job.on(unfit(node, "unkillable: rank " + std::to_string(node))).empty());
  const std::string reason = job.only<EndJob>(CoordinatorTick{}, 600s).outcome.reason;
  CHECK_THAT(reason, Catch::StartsWith("the nodes that are left, 1, are no majority of those of the last round; host0 "
                                       "cannot take part (unkillable: rank 0); host1 "));
}

TEST_CASE("what the steps of a round take is known in the next one, and to a coordinator that takes over",
          "[coordinator]") {
  Job job({.nodes_min = 2, .nodes_max = 2});
  job.run({0, 1});
  const LearnedTimes first{.world_size = 2, .steps = 20, .step = 3s, .load = 1s};
  const LearnedTimes second{.world_size = 2, .steps = 25, .step = 2s, .save = 5s};
  CHECK(job.on(NodeLearned{0, 1, first}).empty());
  CHECK(job.on(NodeLearned{1, 1, second}).empty());
  CHECK(job.on(NodeLearned{1, 2, {.world_size = 2, .step = 1h}}).empty());  // of another round
  CHECK(job.on(NodeLearned{1, 1, {.world_size = 7, .step = 1h}}).empty());
  const LearnedTimes both{.world_size = 2, .steps = 25, .step = 3s, .load = 1s, .save = 5s};
  CHECK(job.coordinator.ledger_record(job.now).learned == both);
  job.only<EndRound>(failure(1, {.code = 3}, 1));
  job.on(ready(0));
  const Round next = job.only<FormRound>(ready(1), 60s).round;
  CHECK(seats(next)[0].learned == both);
  CHECK(seats(next)[1].learned == both);
  job.start(next);
  job.on(NodeLearned{0, 2, first});
  LearnedTimes newer = first;
  newer.save = 5s;  // not seen in this round yet
  CHECK(job.coordinator.ledger_record(job.now).learned == newer);
}

TEST_CASE("where all ranks waited, no machine is worse than the others", "[coordinator]") {
  RoundPolicy policy{.nodes_min = 1, .nodes_max = 2};
  policy.exclusion.failures = 1;
  Job job(policy);
  job.run({0, 1});
  WorkerFailed message = failure(1, {.hung = true}, 1);
  message.failure.of_all = GENERATE(true, false);
  job.only<EndRound>(message);
  job.on(ready(0));
  const Round next = std::get<FormRound>(job.on(ready(1), 60s).front()).round;
  CHECK(next.nodes.size() == (message.failure.of_all ? 2 : 1));
}

namespace {

std::vector<NodePlace> places(const JobView& view) {
  std::vector<NodePlace> out;
  for (const NodeView& node : view.nodes) out.push_back(node.place);
  return out;
}

}  // namespace

TEST_CASE("whoever asks is told of the job, and of every node of the round", "[coordinator][status]") {
  Job job({.nodes_min = 2, .nodes_max = 2, .restarts = {.max_restarts = 5}});
  job.on(ready(1, 4));
  JobView view = std::get<JobView>(job.only<JobReply>(Asked{1, 7, AskStatus{}}, 3s).answer);
  CHECK(view.phase == JobPhase::waiting);
  CHECK(view.since == Duration(3s));
  CHECK(view.round == 0);
  CHECK(places(view) == std::vector{NodePlace::ready});

  const Round round = std::get<FormRound>(job.on(ready(2, 4)).front()).round;
  CHECK(job.coordinator.view(job.now).phase == JobPhase::starting);
  job.start(round);
  job.on(ready(3));
  const std::vector<Order> orders = job.on(Asked{3, 8, AskStatus{.last_lines = true}}, 2s);
  REQUIRE(orders.size() == 2);
  const JobReply reply = std::get<JobReply>(orders[0]);
  CHECK(reply.asker == 3);
  CHECK(reply.serial == 8);
  CHECK(reply.nodes == 2);
  view = std::get<JobView>(reply.answer);
  CHECK(view.phase == JobPhase::running);
  CHECK(view.since == Duration(2s));
  CHECK(view.round == 1);
  CHECK(view.world_size == 8);
  CHECK(view.restarts_max == 5);
  CHECK(places(view) == std::vector{NodePlace::active, NodePlace::active, NodePlace::spare});
  CHECK(view.nodes[1].first_rank == 4);
  CHECK(view.nodes[2].group_rank == -1);
  const AskNodes asked = std::get<AskNodes>(orders[1]);
  CHECK(asked.asker == 3);
  CHECK_FALSE(asked.node);  // all of the round
  CHECK(std::get<AskStatus>(asked.question).last_lines);
  CHECK(job.only<JobReply>(Asked{3, 9, AskStatus{.job_only = true}}).serial == 9);

  const JobReply told = job.only<JobReply>(Answered{1, 3, 8, NodeReport{.round = 1, .name = "host1"}});
  CHECK(told.asker == 3);
  CHECK(told.serial == 8);
  CHECK(std::get<NodeReport>(told.answer).name == "host1");
}

TEST_CASE("all nodes of the round are asked for stacks, or nobody where none is under way", "[coordinator][status]") {
  Job job({.nodes_min = 2, .nodes_max = 2});
  const JobReply none = job.only<JobReply>(Asked{1, 7, AskStacks{}});
  CHECK(none.nodes == 0);
  CHECK(std::holds_alternative<StacksText>(none.answer));
  job.run({1, 2});
  CHECK_FALSE(job.only<AskNodes>(Asked{1, 7, AskStacks{}}).node);
  const JobReply one = job.only<JobReply>(Answered{2, 1, 7, StacksText{"rank 1"}});
  CHECK(one.nodes == 2);
  CHECK(std::get<StacksText>(one.answer).text == "rank 1");
}

TEST_CASE("who asks about a rank is answered by the node that runs it, or told that there is none",
          "[coordinator][status]") {
  Job job({.nodes_min = 2, .nodes_max = 2});
  const auto told = [](const JobReply& reply) { return std::get<RankText>(reply.answer); };
  CHECK(told(job.only<JobReply>(Asked{1, 7, AskRank{0, "log"}})).world_size == 0);
  job.run({1, 2});
  const int world = 2;
  const AskNodes asked = job.only<AskNodes>(Asked{1, 8, AskRank{world - 1, "log"}});
  CHECK(asked.node == NodeId{2});
  CHECK(asked.asker == 1);
  CHECK(asked.serial == 8);
  CHECK(std::get<AskRank>(asked.question).rank == world - 1);
  CHECK(std::get<AskRank>(asked.question).question == "log");
  const JobReply reply = job.only<JobReply>(Answered{2, 1, 8, RankText{"lines"}});
  CHECK(reply.asker == 1);
  CHECK(reply.serial == 8);
  CHECK(told(reply).text == "lines");
  const RankText none = told(job.only<JobReply>(Asked{1, 9, AskRank{world, "log"}}));
  CHECK(none.world_size == world);
  CHECK(none.text.empty());
  job.on(failure(1, {.signal = SIGSEGV}, 1));  // the round ends: its ranks are asked until the next one
  CHECK(job.only<AskNodes>(Asked{1, 9, AskRank{1, "log"}}).node == NodeId{2});
}

TEST_CASE("a node that is lost, stops, is unfit or excluded is told as such", "[coordinator][status]") {
  Job job({.nodes_min = 2, .nodes_max = 4, .exclusion = {.failures = 1}});
  job.run({1, 2, 3, 4});
  job.on(NodeDone{2, 1});
  CHECK(places(job.coordinator.view(job.now)) ==
        std::vector{NodePlace::active, NodePlace::done, NodePlace::active, NodePlace::active});
  job.on(failure(1, {.signal = SIGSEGV}, 3));
  job.on(lost(4, job.now + 6s));
  job.on(ready(3));
  job.on(unfit(2, "no GPU answers"));
  const JobView view = job.coordinator.view(job.now);
  CHECK(view.phase == JobPhase::waiting);
  CHECK(places(view) == std::vector{NodePlace::stopping, NodePlace::unfit, NodePlace::excluded, NodePlace::lost});
  CHECK(view.nodes[1].why == "no GPU answers");
  CHECK(view.counts.crashes == 1);
  CHECK(view.awaited.size() == 3);
}

TEST_CASE("a job that is over says so to whoever asks", "[coordinator][status]") {
  Job job({});
  job.start(job.only<FormRound>(ready(0)).round);
  job.on(NodeDone{0, 1});
  const auto told = [&](Question question) { return job.only<JobReply>(Asked{0, 1, std::move(question)}).answer; };
  CHECK(std::get<JobView>(told(AskStatus{})).phase == JobPhase::over);
  CHECK(std::get<StacksText>(told(AskStacks{})).text.empty());
  CHECK(std::get<RankText>(told(AskRank{})).world_size == 0);
  CHECK_FALSE(std::get<ActResult>(told(Act{})).done);
}

namespace {

Act act_of(ActKind kind, const std::string& node = "", int least = 0, int most = 0) {
  return {kind, node, least, most, "alice on n0"};
}

template <class T>
const T& order_of(const std::vector<Order>& orders) {
  const auto found =
      std::find_if(orders.begin(), orders.end(), [](const Order& one) { return std::holds_alternative<T>(one); });
  REQUIRE(found != orders.end());
  return std::get<T>(*found);
}

// Of nodes 1, 2 and so on; at most so many are in a round.
struct ActedOn : Job {
  ActedOn(int least, int most, int nodes, bool allow_chaos = false)
      : Job({.nodes_min = least, .nodes_max = most, .allow_chaos = allow_chaos}, NodeId{1}) {
    for (int node = 1; node <= nodes; ++node) {
      const std::vector<Order> orders = on(ready(static_cast<NodeId>(node)));
      if (has<FormRound>(orders)) start(order_of<FormRound>(orders).round);
    }
  }
  // All of the round's nodes have stopped.
  Round next(const Ids& nodes) { return start(order_of<FormRound>(on_ready(nodes)).round); }
  ActResult act(const Act& what) {
    const auto reply = order_of<JobReply>(last = on(Asked{1, 7, what}));
    CHECK(reply.serial == 7);
    return std::get<ActResult>(reply.answer);
  }

  std::vector<Order> last;
};

}  // namespace

TEST_CASE("a user restarts a job: its workers save, and nothing is charged", "[coordinator][ctl]") {
  ActedOn job(2, 2, 2);
  const ActResult done = job.act(act_of(ActKind::restart));
  CHECK(done.done);
  CHECK(done.text == "the workers save, and round 2 follows");
  CHECK(words_of(order_of<EndRound>(job.last)) == "planned: restarted by alice on n0");
  CHECK(order_of<ReportAct>(job.last).node == 1);
  CHECK_FALSE(job.act(act_of(ActKind::restart)).done);  // no round is under way
  CHECK(job.next({1, 2}).number == 2);
  CHECK(job.coordinator.ledger().counts().spent() == 0);
}

TEST_CASE("a user stops a job as SIGTERM would", "[coordinator][ctl]") {
  ActedOn job(1, 1, 1);
  CHECK(job.act(act_of(ActKind::stop)).done);
  CHECK(order_of<EndJob>(job.last).outcome.signal == SIGTERM);
  CHECK(order_of<EndJob>(job.last).outcome.verdict == Verdict::interrupted);
  CHECK(job.act(act_of(ActKind::stop)).text == "the job is over");
}

TEST_CASE("a drained node's place goes to a spare, until the node is admitted", "[coordinator][ctl]") {
  ActedOn job(2, 3, 4);
  CHECK_FALSE(job.act(act_of(ActKind::drain, "host9")).done);
  CHECK(job.act(act_of(ActKind::drain, "host2")).done);
  CHECK(order_of<EndRound>(job.last).planned);
  CHECK(ids(job.next({1, 2, 3})) == Ids{1, 3, 4});
  const JobView view = job.coordinator.view(job.now);
  CHECK(view.nodes.back().place == NodePlace::excluded);
  CHECK(view.nodes.back().why == "drained by alice on n0");
  CHECK_FALSE(job.act(act_of(ActKind::drain, "host2")).done);
  CHECK(job.act(act_of(ActKind::drain, "2")).done);  // a group rank
  CHECK(ids(job.next({1, 3, 4})) == Ids{1, 3});
  CHECK_FALSE(job.act(act_of(ActKind::drain, "host3")).done);  // too few would be left
  CHECK_FALSE(job.act(act_of(ActKind::admit, "host3")).done);
  CHECK(job.act(act_of(ActKind::admit, "host2")).done);
  CHECK(has<EndRound>(job.last));  // there is room
  CHECK(ids(job.next({1, 3})) == Ids{1, 3, 2});
}

TEST_CASE("a user changes how many nodes rounds have", "[coordinator][ctl]") {
  ActedOn job(1, 2, 3);
  CHECK_FALSE(job.act(act_of(ActKind::resize, "", 4, 4)).done);
  CHECK(job.act(act_of(ActKind::resize, "", 1, 3)).done);
  CHECK(has<EndRound>(job.last));  // the spare joins
  CHECK(job.next({1, 2}).nodes.size() == 3);
  CHECK(job.act(act_of(ActKind::resize, "", 2, 3)).done);
  CHECK_FALSE(has<EndRound>(job.last));                          // nothing changes now
  CHECK_FALSE(job.act(act_of(ActKind::resize, "", 1, 1)).done);  // two of three could go on without the first
  CHECK(job.act(act_of(ActKind::resize, "", 1, 2)).done);
  CHECK(ids(job.next({1, 2, 3})) == Ids{1, 2});
  CHECK(job.act(act_of(ActKind::resize, "", 1, 1)).done);  // half of them, with the coordinator
  CHECK(ids(job.next({1, 2})) == Ids{1});
  CHECK(job.coordinator.view(job.now).nodes.size() == 3);
  CHECK(job.coordinator.view(job.now).nodes_max == 1);
}

TEST_CASE("how many nodes a user wants outlives the coordinator, also where no round has begun since",
          "[coordinator][ctl]") {
  ActedOn job(1, 3, 3);
  job.act(act_of(ActKind::resize, "", 2, 3));
  CHECK_FALSE(has<EndRound>(job.last));
  REQUIRE(std::holds_alternative<KeepRange>(job.last.front()));  // before the answer
  CHECK(order_of<KeepRange>(job.last).record == RecordId{0, 1});
  CHECK(order_of<KeepRange>(job.last).range == NodeRange{2, 3});
  job.act(act_of(ActKind::restart));
  Round next = job.next({1, 2, 3});
  CHECK(next.resized == NodeRange{2, 3});

  next.coordinator = 2;  // as if it had been handed over
  Coordinator elected({.nodes_min = 1, .nodes_max = 3}, job.now, 0, 2, {1, next, job.now});
  CHECK(elected.view(job.now).nodes_min == 2);
}

TEST_CASE("a user adds workers to a node or to all, and removes them", "[coordinator][ctl]") {
  ActedOn job(2, 2, 3);
  const auto offered = [](NodeId node, int workers) {
    NodeReady message = ready(node);
    message.offer.workers = workers;
    message.offer.workers_most = 3;
    return message;
  };
  const auto change = [&](ActKind kind, int workers, const std::string& node = "") {
    Act act = act_of(kind, node);
    act.workers = workers;
    return job.act(act);
  };
  const auto workers_of = [](const Round& round) {
    std::vector<int> out;
    for (const RoundNode& node : round.nodes) out.push_back(node.workers);
    return out;
  };
  const auto next = [&](const std::vector<NodeReady>& nodes) {
    std::vector<Order> orders;
    for (const NodeReady& node : nodes) orders = job.on(node);
    return job.start(order_of<FormRound>(orders).round);
  };
  CHECK_FALSE(change(ActKind::add_workers, 1).done);  // nobody has said that it takes more
  job.act(act_of(ActKind::restart));
  next({offered(1, 1), offered(2, 1)});

  const ActResult added = change(ActKind::add_workers, 1, "host2");
  CHECK(added.done);
  CHECK(added.text == "host2 has 2 workers; the workers save, and the next round begins");
  CHECK(order_of<EndRound>(job.last).planned);
  CHECK(workers_of(next({offered(1, 1), offered(2, 1)})) == std::vector<int>{1, 2});  // it has not known it yet
  CHECK(job.coordinator.ledger().counts().spent() == 0);
  job.act(act_of(ActKind::restart));
  CHECK(workers_of(next({offered(1, 1), offered(2, 2)})) == std::vector<int>{1, 2});

  const ActResult refused = change(ActKind::add_workers, 2);
  CHECK_FALSE(refused.done);
  CHECK(refused.text == "host2 takes 3 workers at most, and has 2");
  CHECK_FALSE(change(ActKind::remove_workers, 1).done);  // the first one keeps its worker
  CHECK_FALSE(change(ActKind::add_workers, 1, "host9").done);
  CHECK_FALSE(has<EndRound>(job.last));
  CHECK(change(ActKind::remove_workers, 1, "1").text ==
        "host2 has 1 worker; the workers save, and the next round begins");
  CHECK(workers_of(next({offered(1, 1), offered(2, 2)})) == std::vector<int>{1, 1});

  job.on(offered(3, 1));  // a spare
  CHECK(change(ActKind::add_workers, 1, "host3").text == "host3 has 2 workers in the next round");
  CHECK_FALSE(has<EndRound>(job.last));
  CHECK(change(ActKind::add_workers, 1).text ==
        "each node has 1 worker more; the workers save, and the next round begins");
  CHECK(workers_of(next({offered(1, 1), offered(2, 1)})) == std::vector<int>{2, 2});
}

TEST_CASE("a job is paused and goes on", "[coordinator][ctl]") {
  ActedOn job(2, 2, 2);
  CHECK_FALSE(job.act(act_of(ActKind::resume)).done);
  CHECK(job.act(act_of(ActKind::pause)).done);
  CHECK(order_of<SuspendWorkers>(job.last).suspended);
  CHECK(order_of<SuspendWorkers>(job.last).round == 1);
  CHECK_FALSE(job.act(act_of(ActKind::pause)).done);
  CHECK(job.act(act_of(ActKind::resume)).done);
  CHECK_FALSE(order_of<SuspendWorkers>(job.last).suspended);
}

TEST_CASE("the workers of a round are asked for a snapshot, unless they are paused", "[coordinator][ctl]") {
  ActedOn job(2, 2, 2);
  CHECK(job.act(act_of(ActKind::snapshot)).done);
  CHECK(order_of<TakeSnapshot>(job.last).round == 1);
  CHECK_FALSE(has<EndRound>(job.last));
  CHECK(job.act(act_of(ActKind::pause)).done);
  CHECK_FALSE(job.act(act_of(ActKind::snapshot)).done);
  CHECK(job.act(act_of(ActKind::restart)).done);
  CHECK_FALSE(job.act(act_of(ActKind::snapshot)).done);  // no round runs
}

TEST_CASE("a fault goes to the node of its rank, if the job allows it", "[coordinator][ctl]") {
  const auto fault = [](FaultKind kind, int rank) {
    return Act{.kind = ActKind::fault, .by = "bob", .fault = Fault{kind, rank}};
  };
  ActedOn strict(2, 2, 2);
  CHECK_FALSE(strict.act(fault(FaultKind::kill, 1)).done);
  CHECK_THAT(strict.act(fault(FaultKind::kill, 1)).text, Catch::Contains("--allow-chaos"));
  ActedOn job(2, 2, 2, /*allow_chaos=*/true);
  CHECK(job.act(fault(FaultKind::kill, 1)).done);
  CHECK(order_of<InjectFault>(job.last).node == 2);
  CHECK(order_of<InjectFault>(job.last).round == 1);
  CHECK_FALSE(job.act(fault(FaultKind::kill, 2)).done);
  CHECK(job.act(act_of(ActKind::pause)).done);
  CHECK_FALSE(job.act(fault(FaultKind::kill, 1)).done);
}

TEST_CASE("the coordinator accounts for the job's time, and another one goes on with it", "[coordinator][account]") {
  Job job({.nodes_min = 2, .nodes_max = 2, .restarts = {.max_restarts = 5}});
  job.now += 10s;
  job.run({0, 1});
  const RoundSpent measured{.reports = true, .start = 1s, .restore = 4s, .train = 95s, .unfinished = 5s, .steps = 9};
  job.on(NodeSpent{1, 1, measured}, 100s);
  job.on(failure(1, {.signal = SIGSEGV}));
  job.on(ready(0), 3s);
  const Round next = std::get<FormRound>(job.on(ready(1), 2s).front()).round;
  const TimeAccount& closed = next.ledger.account.spent;
  CHECK(closed.total() == 115s);
  CHECK(closed[TimeKind::waiting] == 10s);
  CHECK(closed[TimeKind::start] == 1s);
  CHECK(closed[TimeKind::productive] == 90s);
  CHECK(closed[TimeKind::lost_work] == 5s);
  CHECK(closed[TimeKind::stop] == 5s);
  job.start(next);
  CHECK(job.coordinator.account(job.now + 7s).total() == 122s);

  job.now += 20s;  // the first node is lost with the coordinator; the other one's workers are stopped 2 s later
  Coordinator elected({.nodes_min = 1, .nodes_max = 2}, job.now, 0, 1, {1, next, job.now + 6s, 20s});
  elected.on(NodeBack{1, 2, {}}, job.now);
  elected.on(NodeSpent{1, 2, {.reports = true, .start = 1s, .train = 19s}}, job.now);
  elected.on(ready(1), job.now + 2s);
  const TimeAccount both = elected.account(job.now + 3s);
  CHECK(both.total() == 115s + 23s);
  CHECK(both[TimeKind::productive] == 109s);
  CHECK(both[TimeKind::stop] == 8s);  // the lost node's workers may still run
  elected.on(CoordinatorTick{}, job.now + 6s);
  CHECK(elected.ledger_record(job.now + 9s).account.spent.total() == 115s + 29s);
}

TEST_CASE("a round's seats say where its ranks' snapshots are, as the nodes have told", "[coordinator][copies]") {
  Job job(fixed(2));
  job.run({1, 2});
  job.on(lost(2, job.now));
  job.on(NodeGone{2});
  NodeReady survivor = ready(1);
  survivor.offer.control = {"10.0.0.1", 29500};
  survivor.offer.held = {{0, 2, 1, 6}, {1, 2, 1, 6}};
  job.on(survivor);
  const std::vector<Order> orders = job.on(ready(3), 5min);
  REQUIRE(has<FormRound>(orders));
  const Round round = std::get<FormRound>(orders.front()).round;
  REQUIRE(round.kept);
  CHECK(round.kept->step == 6);
  CHECK(seats(round)[0].kept == SeatSnapshot{1, 6, {{}}});
  CHECK(seats(round)[1].kept == SeatSnapshot{1, 6, {{"10.0.0.1", 29500}}});
  job.start(round);
  job.on(WorkerFailed{{2, 1, 0, 0, {.code = 1}}});
  job.on(ready(1));  // it holds nothing any more
  const std::vector<Order> again = job.on(ready(3), 5min);
  REQUIRE(has<FormRound>(again));
  CHECK_FALSE(std::get<FormRound>(again.front()).round.kept);
}
