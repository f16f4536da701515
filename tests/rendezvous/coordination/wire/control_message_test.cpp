#include "rendezvous/coordination/wire/control_message.h"

#include "rendezvous/peer/frame.h"
#include "tests/support/test.h"

namespace {

const NodeOffer offer{8, "10.0.0.7", 41234, "actor", 3, "gpu-7", {}, 6, "", {}, 24};
const Round record{.number = 3,
                   .nodes = {{77, 8, 0, "actor", "gpu-7", {"10.0.0.7", 29500}}, {UINT64_MAX, 4, 8, "default", "", {}}},
                   .master_host = "10.0.0.7",
                   .master_port = 41234,
                   .ledger = {.counts = {.crashes = 2, .out_of_memory = 1, .lost_nodes = 1},
                              .charges = {{FailureClass::crash, 2, 5s}, {FailureClass::out_of_memory, 1, 70ms}},
                              .last_failure = ExitStatus{.signal = SIGSEGV},
                              .last_line = "KeyError: 'lr'",
                              .repeats = 1,
                              .progressed = true,
                              .futile = {2, ExitStatus{.code = 1}, "a line"}},
                   .term = 5,
                   .coordinator = 77,
                   .previous_electorates = {{9, {9, 77}}}};
const Failure failure{4, 77, 2, 10, {.signal = SIGSEGV}};

std::string why_bad(const std::string& bytes) {
  try {
    decode_from_agent(bytes, 1);
  } catch (const BadMessage& bad) {
    return bad.what();
  }
  return "";
}

template <class T>
T sent_by_agent(const T& message) {
  return std::get<T>(decode_from_agent(encode(FromAgent(message)), 77));
}

template <class T>
T sent_to_agent(const T& message) {
  return std::get<T>(decode_to_agent(encode(ToAgent(message))));
}

}  // namespace

TEST_CASE("control characters of a message are escaped as it is read, and a line's end stays in a report",
          "[control]") {
  const std::string attack = "n\x1b[2J\n\xc2\x9b", shown = "n\\x1b[2J\\x0a\\xc2\\x9b";
  NodeOffer named = offer;
  named.name = named.host = attack;
  named.unfit = "line\n\x1b";
  const NodeReady ready = sent_by_agent(NodeReady{1, named});
  CHECK(ready.offer.name == shown);
  CHECK(ready.offer.host == shown);
  CHECK(ready.offer.unfit == "line\n\\x1b");
  CHECK(sent_by_agent(FailureText{"a\n\tb\x1b"}).text == "a\n\tb\\x1b");
  CHECK(sent_by_agent(NodeReady{1, ready.offer}).offer.name == shown);  // passed on
  const std::string umlaut = "\xc3\xa4";
  named.name = umlaut;
  CHECK(sent_by_agent(NodeReady{1, named}).offer.name == umlaut);
}

TEST_CASE("what is escaped fits into the next message, and what is compared comes as it was sent", "[control]") {
  NodeOffer named = offer;
  named.name = std::string(1000, '\x01') + "\xc3\xa4";
  const NodeOffer once = sent_by_agent(NodeReady{1, named}).offer;
  CHECK(once.name.size() <= 1024);
  CHECK(sent_by_agent(NodeReady{1, once}).offer.name == once.name);
  named.name = std::string(1023, 'n') + "\xc2\x9b";
  CHECK_FALSE(why_bad(encode(FromAgent(NodeReady{1, named}))).empty());  // as before: it is too long
  const Fingerprint job{kControlProtocol, "1.2.3", "2:4", "tr\tain.py"};
  CHECK(sent_by_agent(Hello{job, 29500}).fingerprint == job);
  CHECK(sent_by_agent(ClientRequest{"act {\"by\":\"\x7f\"}"}).line == "act {\"by\":\"\x7f\"}");
  CHECK(sent_to_agent(ClientAnswer{"{\"name\": \"\xc2\x9b\"}\n"}).text == "{\"name\": \"\xc2\x9b\"}\n");
}

TEST_CASE("what an agent says arrives as it was said, by the connection's node", "[control]") {
  const Fingerprint job{kControlProtocol, "1.2.3", "2:4", "train"};
  CHECK(sent_by_agent(Hello{job, 29500}).fingerprint == job);
  CHECK(sent_by_agent(Hello{job, 29500}).control_port == 29500);
  CHECK(sent_by_agent(Heartbeat{UINT64_MAX}).number == UINT64_MAX);
  CHECK(sent_by_agent(FailureText{"rank 3 \n\tdied"}).text == "rank 3 \n\tdied");
  const NodeReady ready = sent_by_agent(NodeReady{1, offer});
  CHECK(ready.node == 77);
  CHECK(ready.offer.workers == 8);
  CHECK(ready.offer.host == "10.0.0.7");
  CHECK(ready.offer.port == 41234);
  CHECK(ready.offer.role == "actor");
  CHECK(ready.offer.requested_rank == 3);
  CHECK(ready.offer.name == "gpu-7");
  CHECK(ready.offer.rounds == 6);
  CHECK_FALSE(sent_by_agent(NodeReady{1, {}}).offer.requested_rank);
  CHECK(sent_by_agent(NodeConfirmed{1, 4}).round == 4);
  CHECK(sent_by_agent(NodeRunning{1, 4}).round == 4);
  CHECK(sent_by_agent(NodeDone{1, 4}).round == 4);
  const WorkerFailed failed = sent_by_agent(WorkerFailed{{4, 1, 2, 10, {.signal = SIGSEGV}}, false});
  CHECK(failed.failure.node == 77);
  CHECK(failed.failure.local_rank == 2);
  CHECK(failed.failure.rank == 10);
  CHECK(failed.failure.status == failure.status);
  CHECK(failed.progressed == false);
  CHECK_FALSE(sent_by_agent(WorkerFailed{failure, {}}).progressed);
  Failure changed = failure;
  changed.status = {.stuck = true};
  changed.last_line = "KeyError: 'lr'";
  CHECK(sent_by_agent(WorkerFailed{changed, {}}).failure.status == changed.status);
  CHECK(sent_by_agent(WorkerFailed{changed, {}}).failure.last_line == changed.last_line);
  changed.last_line = std::string(kLastLineMax + 1, 'x');
  CHECK_THROWS_AS(sent_by_agent(WorkerFailed{changed, {}}), BadMessage);
  CHECK(sent_by_agent(NodeLeaves{1, SIGTERM}).signal == SIGTERM);
  CHECK(sent_by_agent(JobInterrupted{1, SIGINT}).signal == SIGINT);
  CHECK(sent_by_agent(NodeBack{1, 4, offer}).round == 4);
  CHECK(sent_by_agent(NodeNotified{1}).node == sent_by_agent(NodeBack{1, 4, offer}).node);
  CHECK(sent_by_agent(JobWasOver{1, {Verdict::interrupted, SIGINT, "why", {}}}).outcome.signal == SIGINT);
  const Standing standing{3,
                          Activity::wait,
                          "grads",
                          41,
                          2100ms,
                          true,
                          true,
                          true,
                          true,
                          "rpc_wait",
                          true,
                          CollectiveRecord{{{"1", "tp", {2, 3}, 9, {{9, "all_reduce", "64x2 float32", 128, "float32"}}},
                                            {"0", "", {}, 4, {{4, "recv", "", 0, "", 3, true}}}}}};
  const NodeStandings told = sent_by_agent(NodeStandings{1, 4, {standing, {}}});
  CHECK(told.node == 77);
  CHECK(told.round == 4);
  CHECK(told.standings == std::vector<Standing>{standing, {}});
}

TEST_CASE("what the coordinator says arrives as it was said", "[control]") {
  CHECK(sent_to_agent(Welcome{"10.0.0.7", 5s}).lease == 5s);
  CHECK(sent_to_agent(Welcome{"10.0.0.7", 5s}).your_address == "10.0.0.7");
  CHECK_FALSE(sent_to_agent(HeartbeatAnswer{3, {}, {}}).attendance);
  const HeartbeatAnswer answer = sent_to_agent(HeartbeatAnswer{3, 7ms, Attendance{2, 3, 16, {"gpu-7"}, 9}});
  CHECK(answer.quorum_age == 7ms);
  CHECK(answer.attendance->nodes == 2);
  CHECK(answer.attendance->nodes_wanted == 3);
  CHECK(answer.attendance->workers == 16);
  CHECK(answer.attendance->awaited == std::vector<std::string>{"gpu-7"});
  CHECK(answer.attendance->awaited_more == 9);
  const Seat seat{3, 1, 2, 4, 8, 12, "actor", 6, 10, "10.0.0.1", 41234, 2};
  const Seat taken = sent_to_agent(TakeSeat{seat}).seat;
  CHECK(encode(ToAgent(TakeSeat{taken})) == encode(ToAgent(TakeSeat{seat})));
  CHECK(taken.first_role_rank == 6);
  CHECK(taken.restarts == 2);
  CHECK(sent_to_agent(StartRound{3}).round == 3);
  CHECK(sent_to_agent(EndRound{3, true, "host7 joins"}).planned);
  CHECK(sent_to_agent(EndRound{3, true, "host7 joins"}).reason == "host7 joins");
  const Verdict verdict =
      GENERATE(Verdict::success, Verdict::worker_failed, Verdict::worker_final, Verdict::requeue, Verdict::stopped,
               Verdict::interrupted, Verdict::too_few_nodes, Verdict::too_few_left, Verdict::refused);
  const Outcome outcome = sent_to_agent(EndJob{{verdict, SIGINT, "why", failure, true}}).outcome;
  CHECK(outcome.late);
  CHECK_FALSE(sent_to_agent(EndJob{{verdict, SIGINT, "why", failure}}).outcome.late);
  CHECK_FALSE(sent_to_agent(EndJob{{verdict, SIGINT, "why", failure}}).for_all);
  CHECK(sent_to_agent(EndJob{{verdict, SIGINT, "why", failure}, true}).for_all);
  sent_to_agent(AllNotified{});
  CHECK_FALSE(sent_to_agent(Vote{3, true, 7ms, 77}).over);
  CHECK(sent_to_agent(Vote{3, false, 7ms, 77, Outcome{verdict, SIGINT, "why", failure}}).over->verdict == verdict);
  CHECK(outcome.verdict == verdict);
  CHECK(outcome.signal == SIGINT);
  CHECK(outcome.reason == "why");
  CHECK(outcome.cause->node == 77);
  CHECK(outcome.cause->status == failure.status);
}

TEST_CASE("the pace of workers arrives in few bytes", "[control]") {
  const RankView rank{3,   Activity::wait, "grads", 41, 2100ms, 40, 12s,  50 << 20, 900,  0.1,  5000, 1 << 30,
                      1.5, true,           true,    1s, 2s,     3s, 4711, true,     true, "rpc"};
  const NodeReport report{4, 1, "gpu-7", 312'500, {rank, {}}, {}, 2, {{-1, 2s, "epoch 3"}, {5, 3s, "epoch 2"}}};
  const Answered answered = sent_by_agent(Answered{1, 9, 2, report});
  CHECK(answered.node == 77);
  CHECK(answered.asker == 9);
  CHECK(answered.serial == 2);
  CHECK(std::get<NodeReport>(answered.answer) == report);
  CHECK(sent_by_agent(Asked{1, 2, AskStacks{}}).serial == 2);
  const auto asked = [](const Question& question) { return sent_by_agent(Asked{1, 2, question}).question; };
  CHECK(std::holds_alternative<AskStacks>(asked(AskStacks{})));
  CHECK_FALSE(std::get<AskStatus>(asked(AskStatus{})).last_lines);
  CHECK(std::get<AskStatus>(asked(AskStatus{.last_lines = true})).last_lines);
  CHECK(std::get<AskStatus>(asked(AskStatus{.job_only = true})).job_only);
  CHECK(std::get<AskRank>(asked(AskRank{3, "log {\x1b}"})).question == "log {\x1b}");
  const auto read = [](const std::string& question) {
    return decode_from_agent(R"({"type":"asked","serial":1,"question":)" + question + "}", 77);
  };
  CHECK_NOTHROW(read(R"({"stacks":{}})"));
  for (const char* unknown : {"{}", R"({"weather":{}})", R"({"stacks":7})", "[]"})
    CHECK_THROWS_AS(read(unknown), BadMessage);
  const Act act{ActKind::resize, "gpu-7", 2, 4, "alice on login1"};
  CHECK(std::get<Act>(sent_by_agent(Asked{1, 2, act}).question) == act);
  const Act more{ActKind::add_workers, "", 0, 0, "alice on login1", {}, 2};
  CHECK(std::get<Act>(sent_by_agent(Asked{1, 2, more}).question) == more);
  NodePace pace{1, 4, {}};
  for (int rank = 7992; rank < 8000; ++rank) pace.windows.push_back({rank, 312, 31'250, 1'562'500, 406'250});
  const NodePace received = sent_by_agent(pace);
  CHECK(received.node == 77);
  CHECK(received.round == 4);
  CHECK(received.windows == pace.windows);
  const std::size_t size = encode(FromAgent(pace)).size();
  INFO(size << " bytes");
  CHECK(size <= 320);  // of eight workers
  for (const auto kind : {PaceChange::Kind::straggler, PaceChange::Kind::over, PaceChange::Kind::all_slower,
                          PaceChange::Kind::all_normal}) {
    const ReportPace report{1, 4, {kind, -1, Activity::load, 310, 40}, "node7", "it stays"};
    const ReportPace arrived = sent_to_agent(report);
    CHECK(arrived.round == 4);
    CHECK(arrived.change == report.change);
    CHECK(arrived.host == "node7");
    CHECK(arrived.then == "it stays");
  }
  CHECK(sent_to_agent(ReportPace{1, 4, {}}).host.empty());
}

TEST_CASE("a failure arrives with its class, and with the rule that matched", "[control]") {
  for (const NamedFailureClass& known : kFailureClasses) {
    Failure of_class = failure;
    of_class.kind = known.kind;
    CHECK(sent_by_agent(WorkerFailed{of_class}).failure.kind == known.kind);
  }
  CHECK_FALSE(sent_by_agent(WorkerFailed{failure}).rule);
  const auto action =
      GENERATE(RuleAction::restart, RuleAction::restart_elsewhere, RuleAction::requeue, RuleAction::stop);
  CHECK(sent_by_agent(WorkerFailed{failure, true, RuleMatch{action, "job.toml:7"}}).rule ==
        RuleMatch{action, "job.toml:7"});
}

TEST_CASE("a round's record arrives as it was written, for whoever has to go on by it", "[control]") {
  const Round kept = sent_to_agent(KeepRecord{record}).record;
  CHECK(encode(ToAgent(KeepRecord{kept})) == encode(ToAgent(KeepRecord{record})));
  CHECK(kept.id() == RecordId{5, 3});
  CHECK_FALSE(kept.resized);
  Round resized = record;
  resized.resized = NodeRange{2, 5};
  CHECK(sent_to_agent(KeepRecord{resized}).record.resized == NodeRange{2, 5});
  const KeepRange range = sent_to_agent(KeepRange{{5, 3}, {2, 5}});
  CHECK(range.record == RecordId{5, 3});
  CHECK(range.range == NodeRange{2, 5});
  CHECK(kept.world_size() == 12);
  CHECK(kept.nodes.front().control == ControlAddress{"10.0.0.7", 29500});
  CHECK(kept.nodes.back().id == UINT64_MAX);
  CHECK(kept.ledger == record.ledger);
  CHECK(kept.electorates() == std::vector<Electorate>{{77, {77, UINT64_MAX}}, {9, {9, 77}}});
  const VoteRequest request = sent_by_agent(VoteRequest{6, 1, std::make_shared<const Round>(record)});
  CHECK(request.candidate == 77);  // the connection's
  CHECK(request.term == 6);
  CHECK(request.record->id() == record.id());
  const VoteRequest brief = sent_by_agent(VoteRequest{6, 1, only_id(record.id())});
  CHECK(brief.record->id() == record.id());
  CHECK(brief.record->nodes.empty());
  CHECK(sent_by_agent(CoordinatorAnnouncement{6, 29500}).control_port == 29500);
  CHECK(sent_to_agent(Vote{6, true, 7ms}).granted);
  CHECK(sent_to_agent(Vote{6, true, 7ms}).heard_age == 7ms);
  CHECK(sent_to_agent(Vote{6, true, 7ms, 5}).voter == 5);
  CHECK(sent_to_agent(Elsewhere{6, ControlAddress{"10.0.0.7", 29500}}).coordinator ==
        ControlAddress{"10.0.0.7", 29500});
  CHECK_FALSE(sent_to_agent(Elsewhere{6, {}}).coordinator);
  CHECK(sent_by_agent(Hello{{}, 1, {5, 3}}).record == RecordId{5, 3});
  CHECK(sent_by_agent(Hello{{}, 1, {}, 8}).instead_of == 8);
  CHECK(sent_to_agent(Elsewhere{6, {}, 7, {5, 3}}).record == RecordId{5, 3});
  CHECK(sent_by_agent(Heartbeat{8, 7}).answered == 7);
  Round stranger = record;
  stranger.coordinator = 1;
  CHECK_THROWS_WITH(sent_to_agent(KeepRecord{stranger}), "the record's coordinator is not one of its nodes");
}

TEST_CASE("a record with more ranks than can be counted is refused", "[control]") {
  Round large = record;
  large.nodes.insert(large.nodes.end(), 65'534, {.id = 5, .workers = 65'536});
  CHECK_THROWS_WITH(sent_to_agent(KeepRecord{large}), "a record has too many ranks");
  large.nodes.resize(4096 + 2);
  CHECK_THROWS_WITH(sent_to_agent(KeepRecord{large}), "a record has too many ranks");
  large.nodes.resize(4096);
  CHECK(sent_to_agent(KeepRecord{large}).record.world_size() == 12 + 4094 * 65'536);
}

TEST_CASE("what is no message is refused with the reason", "[control]") {
  CHECK(why_bad("") == "it is not JSON");
  CHECK(why_bad("[]") == "expected an object");
  CHECK(why_bad("{}") == "'type' is missing");
  CHECK(why_bad(R"({"type":"dance"})") == "'type' is unknown");
  CHECK(why_bad(R"({"type":"done"})") == "'round' is missing");
  CHECK(why_bad(R"({"type":"done","round":-1})") == "'round' is out of range");
  CHECK(why_bad(R"({"type":"done","round":99999999999})") == "'round' is out of range");
  CHECK(why_bad(R"({"type":"done","round":1.5})") == "'round' is out of range");
  CHECK(why_bad(R"({"type":"done","round":"1"})") == "'round' is out of range");
  CHECK(why_bad(R"({"type":"leaves","signal":0})") == "'signal' is out of range");
  CHECK(why_bad(R"({"type":"heartbeat","number":-1})") == "'number' is out of range");
  CHECK(why_bad(R"({"type":"ready","offer":{"workers":0}})") == "'workers' is out of range");
  CHECK(why_bad(R"({"type":7})") == "expected a string");
  CHECK(why_bad("{\"type\":\"\xff\"}") == "it is not JSON");
  CHECK(why_bad(R"({"type":"failure-words","text":")" + std::string(300'000, 'x') + "\"}") == "expected a string");
  CHECK(why_bad(std::string(100'000, '[')) == "it is not JSON");
}

TEST_CASE("names that are no UTF-8 arrive mended", "[control]") {
  CHECK(sent_to_agent(EndRound{1, false, "host \xff joins"}).reason == "host \xef\xbf\xbd joins");
}

TEST_CASE("agents that cannot belong to one job are told the difference, both values named", "[control]") {
  const Fingerprint ours{1, "1.0", "2:4", "train"};
  CHECK(difference(ours, ours) == "");
  CHECK(difference(ours, {1, "1.0", "2:5", "train"}) ==
        "--nnodes is 2:5 here and 2:4 in the job; start every node with the same one");
  CHECK(difference(ours, {1, "1.0", "2:4", "eval"}) ==
        "the program is eval here and train in the job; start every node with the same one");
  CHECK(difference(ours, {1, "1.1", "2:4", "train"}) ==
        "ddprun's version is 1.1 here and 1.0 in the job; install one version on all nodes");
  CHECK(difference(ours, {2, "2.0", "2:4", "train"}) ==
        "ddprun's control protocol is 2 (of version 2.0) here and 1 (of version 1.0) in the job; install one version "
        "on all nodes");
}

TEST_CASE("frames come out whole, however their bytes are cut", "[control]") {
  const std::string stream = framed("one") + framed("") + framed(std::string(70'000, 'x'));
  const std::size_t piece = GENERATE(1, 3, 4, 5, 1000, 1 << 20);
  FrameReader reader;
  std::vector<std::string> out;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    reader.add(std::string_view(stream).substr(at, piece));
    while (auto message = reader.next()) out.push_back(*message);
  }
  REQUIRE(out.size() == 3);
  CHECK(out[0] == "one");
  CHECK(out[1].empty());
  CHECK(out[2].size() == 70'000);
  CHECK_FALSE(reader.broken());
}

TEST_CASE("a frame over the limit is refused by its length alone", "[control]") {
  FrameReader reader;
  reader.add({"\x01\x00\x40\x00", 4});  // 4 MiB and a byte
  CHECK_FALSE(reader.next());
  CHECK(reader.broken());
  reader.add(framed("late"));
  CHECK_FALSE(reader.next());
}

TEST_CASE("what a node holds arrives, and so does what its seat says of it", "[control][copies]") {
  NodeOffer holds = offer;
  holds.held = {{3, 8, 2, UINT64_MAX}, {0, 8, 1, 0}};
  CHECK(sent_by_agent(NodeReady{1, holds}).offer.held == holds.held);
  CHECK(encode(FromAgent(NodeReady{1, offer})).find("held") == std::string::npos);
  Seat seat{.round = 3, .workers = 2, .world_size = 2};
  seat.kept = SeatSnapshot{2, 41, {{}, {"10.0.0.8", 29500}}};
  seat.next_agent = {"10.0.0.9", 29501};
  const Seat taken = sent_to_agent(TakeSeat{seat}).seat;
  CHECK(taken.kept == seat.kept);
  CHECK(taken.next_agent == seat.next_agent);
  CHECK_FALSE(sent_to_agent(TakeSeat{{.round = 1}, 1}).seat.kept);
  seat.kept->from.pop_back();
  CHECK_THROWS_AS(sent_to_agent(TakeSeat{seat}), BadMessage);
  CHECK(why_bad(R"({"type":"ready","offer":{"workers":1,"host":"","port":1,"role":"","name":"","rounds":0,)"
                R"("held":[[1,2,3]]}})") == "a held snapshot is not a list of four");
}

TEST_CASE("what a node has learned of the steps arrives, and goes into seats", "[control]") {
  const LearnedTimes times{.world_size = 8,
                           .steps = 1000,
                           .step = 120ms,
                           .start = 9s,
                           .load = 1s,
                           .compute = 2s,
                           .wait = 3s,
                           .save = 4s,
                           .evaluate = 5s};
  const NodeLearned received = sent_by_agent(NodeLearned{1, 4, times});
  CHECK(received.node == 77);
  CHECK(received.round == 4);
  CHECK(received.times == times);
  CHECK(sent_to_agent(TakeSeat{{.round = 1, .learned = times}, 1}).seat.learned == times);
  CHECK(sent_to_agent(BlameWorker{1, 4, 2, "it stands", true}).of_all);
}

TEST_CASE("what a coordinator knows of the job arrives as it was told, however long it has run", "[control]") {
  const JobView view{.phase = JobPhase::running,
                     .since = std::chrono::hours(24 * 365),
                     .round = 4,
                     .term = 2,
                     .coordinator = 77,
                     .nodes_min = 2,
                     .nodes_max = 8,
                     .world_size = 16,
                     .backoff = 1500ms,
                     .restarts_max = 3,
                     .counts = {.crashes = 2, .lost_nodes = 1},
                     .nodes = {{77, "gpu-7", "10.0.0.7", NodePlace::active, 0, 0, 8, ""},
                               {78, "gpu-8", "10.0.0.8", NodePlace::excluded, -1, 0, 8, "3 failures there in 1 h"}},
                     .awaited = {"gpu-9"},
                     .slow = {{5, Activity::load, 160}},
                     .round_age = 30s};
  const JobReply told = sent_to_agent(JobReply{1, 2, 3, view});
  CHECK(told.serial == 2);
  CHECK(told.nodes == 3);
  CHECK(std::get<JobView>(told.answer) == view);
  const auto reply = [](const JobAnswer& answer) { return sent_to_agent(JobReply{1, 2, 3, answer}).answer; };
  CHECK(std::get<ActResult>(reply(ActResult{true, "it ends"})).text == "it ends");
  CHECK(std::get<NodeReport>(reply(NodeReport{.round = 4, .name = "gpu-7"})).name == "gpu-7");
  CHECK(std::get<RankText>(reply(RankText{"\x1b[1mbold\n", 16})).text == "\x1b[1mbold\n");
  CHECK(std::get<RankText>(reply(RankText{{}, 16})).world_size == 16);
  CHECK(std::get<StacksText>(reply(StacksText{"at line 3\n"})).text == "at line 3\n");
  CHECK(sent_to_agent(AskNodes{{}, 9, 2, AskStatus{}}).asker == 9);
  CHECK(std::get<AskRank>(sent_to_agent(AskNodes{1, 9, 2, AskRank{3, "log"}}).question).rank == 3);
  CHECK(sent_to_agent(ReportAct{1, {.kind = ActKind::pause, .by = "bob"}, true, ""}).act.by == "bob");
  CHECK(std::get<RankText>(sent_by_agent(Answered{1, 9, 2, RankText{"\x1b[1mbold\n"}}).answer).text == "\x1b[1mbold\n");
  CHECK(sent_to_agent(SuspendWorkers{4, true}).suspended);
  CHECK(sent_to_agent(TakeSnapshot{4}).round == 4);
  const Fault fault{FaultKind::slow, 3, 2500ms};
  CHECK(sent_to_agent(InjectFault{1, 4, fault}).fault == fault);
  const Act chaos{.kind = ActKind::fault, .by = "bob", .fault = fault};
  CHECK(std::get<Act>(sent_by_agent(Asked{1, 2, chaos}).question) == chaos);
  CHECK(in_words(chaos) == "fault: slow rank 3 for 2.5 s");
}

TEST_CASE("what a node has measured of a round arrives to the microsecond", "[control]") {
  const RoundSpent spent{.reports = true,
                         .start = 1'234'567us,
                         .restore = 2us,
                         .train = 3h,
                         .evaluate = 4s,
                         .save = 5ms,
                         .doing = TimeKind::save,
                         .since_progress = 6us,
                         .unfinished = 7us,
                         .steps = 8,
                         .first_step = UINT64_MAX,
                         .snapshot_step = 9};
  const NodeSpent received = sent_by_agent(NodeSpent{1, 4, spent});
  CHECK(received.node == 77);
  CHECK(received.round == 4);
  CHECK(received.spent == spent);
  CHECK(sent_by_agent(NodeSpent{1, 4, {.start = -1s, .train = Duration::max()}}).spent.train == std::chrono::years(10));
  const std::string text = encode(FromAgent(NodeSpent{1, 4, spent}));
  std::string wrong = text;
  wrong.replace(wrong.find("\"save\""), 6, "\"sing\"");
  CHECK_THROWS_AS(decode_from_agent(wrong, 77), BadMessage);
}
