// What each control message consists of: its type's name, then its fields with their names and limits. Writing,
// reading and checking all come from here (message_archive.h).
#pragma once
#include <concepts>
#include <csignal>
#include <limits>
#include <tuple>
#include <type_traits>
#include <vector>

#include "rendezvous/coordination/wire/message_archive.h"

namespace ddprun::rendezvous::wire {

constexpr int kRanksMax = 1 << 28, kPercentMax = 10'000, kRoundsMax = 1 << 30;
constexpr Range kFromOne{1}, kAnyInt{std::numeric_limits<int>::min()}, kWorkers{1, kWorkersMax}, kRank{0, kRanksMax},
    kGroupSize{1, kRanksMax}, kCount{0, 1 << 28}, kCharge{1, 1 << 20}, kAnyCount{0}, kSignal{1, NSIG},
    kSignalOrNone{0, NSIG};

constexpr Named<Verdict> kVerdicts[] = {{Verdict::success, "success"},
                                        {Verdict::worker_failed, "worker-failed"},
                                        {Verdict::worker_final, "worker-final"},
                                        {Verdict::requeue, "requeue"},
                                        {Verdict::stopped, "stopped"},
                                        {Verdict::interrupted, "interrupted"},
                                        {Verdict::too_few_nodes, "too-few-nodes"},
                                        {Verdict::too_few_left, "too-few-left"},
                                        {Verdict::refused, "refused"},
                                        {Verdict::out_of_reach, "out-of-reach"}};

struct ClassNames {
  Named<FailureClass> all[kFailureClasses.size()];
};
constexpr ClassNames kClasses = [] {
  ClassNames out{};
  for (std::size_t i = 0; i < kFailureClasses.size(); ++i)
    out.all[i] = {kFailureClasses[i].kind, kFailureClasses[i].name};
  return out;
}();
struct ActivityNames {
  Named<Activity> all[kActivities.size()];
};
constexpr ActivityNames kActivityNames = [] {
  ActivityNames out{};
  for (std::size_t i = 0; i < kActivities.size(); ++i) out.all[i] = {kActivities[i].activity, kActivities[i].name};
  return out;
}();
struct TimeKindNames {
  Named<TimeKind> all[kTimeKinds.size()];
};
constexpr TimeKindNames kTimeKindNames = [] {
  TimeKindNames out{};
  for (std::size_t i = 0; i < kTimeKinds.size(); ++i) out.all[i] = {kTimeKinds[i].kind, kTimeKinds[i].name};
  return out;
}();
constexpr Named<PaceChange::Kind> kPaceKinds[] = {{PaceChange::Kind::straggler, "straggler"},
                                                  {PaceChange::Kind::over, "over"},
                                                  {PaceChange::Kind::all_slower, "all-slower"},
                                                  {PaceChange::Kind::all_normal, "all-normal"}};
constexpr Named<RuleAction> kActions[] = {{RuleAction::restart, "restart"},
                                          {RuleAction::restart_elsewhere, "restart-elsewhere"},
                                          {RuleAction::requeue, "requeue"},
                                          {RuleAction::stop, "stop"}};

constexpr Named<JobPhase> kJobPhases[] = {{JobPhase::waiting, "waiting"},
                                          {JobPhase::starting, "starting"},
                                          {JobPhase::running, "running"},
                                          {JobPhase::over, "over"}};
constexpr Named<NodePlace> kNodePlaces[] = {{NodePlace::active, "active"},     {NodePlace::done, "done"},
                                            {NodePlace::ready, "ready"},       {NodePlace::spare, "spare"},
                                            {NodePlace::stopping, "stopping"}, {NodePlace::excluded, "excluded"},
                                            {NodePlace::unfit, "unfit"},       {NodePlace::lost, "lost"}};

struct ActNames {
  Named<ActKind> all[std::size(kActs)];
};
constexpr ActNames kActNames = [] {
  ActNames out{};
  for (std::size_t i = 0; i < std::size(kActs); ++i) out.all[i] = {kActs[i].kind, kActs[i].name};
  return out;
}();

struct FaultNames {
  Named<FaultKind> all[std::size(kFaults)];
};
constexpr FaultNames kFaultNames = [] {
  FaultNames out{};
  for (std::size_t i = 0; i < std::size(kFaults); ++i) out.all[i] = {kFaults[i].kind, kFaults[i].name};
  return out;
}();

template <class T, class Part>
concept Is = std::same_as<std::remove_const_t<T>, Part>;
template <class Archive>
constexpr bool kReads = std::same_as<std::remove_cvref_t<Archive>, Reader>;

inline void expect(bool holds, const char* complaint) {
  if (!holds) throw BadMessage(complaint);
}

// Parts of messages.

void fields(auto& a, Is<ControlAddress> auto& m) {
  a("host", m.host);
  a("port", m.port);
}

void fields(auto& a, Is<HeldSnapshot> auto& m) {  // a row
  a("rank", m.rank, kRank);
  a("world_size", m.world_size, kGroupSize);
  a("round", m.round, Range{0, kRoundsMax});
  a("step", m.step);
}

void fields(auto& a, Is<NodeOffer> auto& m) {  // `control` comes from the connection
  a("workers", m.workers, kWorkers);
  a("host", m.host);
  a("port", m.port);
  a("role", m.role);
  a("name", m.name);
  a("rounds", m.rounds, Range{0, kRoundsMax});
  a("rank", m.requested_rank, kAnyInt);
  a.unless_default("unfit", m.unfit, kTextMax);
  a.unless_default("workers_most", m.workers_most, Range{0, kWorkersMax});
  a.unless_default("step", m.step, kTextMax);
  if (a.continues_with("held", !m.held.empty())) a.rows("held", m.held, "a held snapshot is not a list of four");
}

void fields(auto& a, Is<ExitStatus> auto& m) {
  a("code", m.code, Range{0, 255});
  a("signal", m.signal, kSignalOrNone);
  a("start_error", m.start_error, Range{0, 4095});
  a("hung", m.hung);
  a.lenient("stuck", m.stuck);
  a.lenient("by_output", m.by_output);
}

void fields(auto& a, Is<Failure> auto& m) {
  a("round", m.round);
  a("node", m.node);
  a("local_rank", m.local_rank, Range{0, kWorkersMax});
  a("rank", m.rank, kRank);
  a("status", m.status);
  a.one_of("class", m.kind, kClasses.all);
  a("host", m.host);
  a.lenient("last_line", m.last_line, kLastLineMax);
  a.unless_default("how", m.how, kTextMax);
  a.unless_default("of_all", m.of_all);
  a.unless_default("cannot_begin", m.cannot_begin);
  a.unless_default("place", m.place, kPlaceMax);
}

void fields(auto& a, Is<RecordedCall> auto& m) {  // a row
  a("number", m.number);
  a("operation", m.operation, kCallTextMax);
  a("tensors", m.tensors, kCallTextMax);
  a("elements", m.elements);
  a("type", m.type, kCallTextMax);
  a("to", m.to, Range{-1, kRanksMax});
  a("over", m.over);
}

void fields(auto& a, Is<RecordedGroup> auto& m) {
  a("name", m.name);
  a("description", m.description, kCallTextMax);
  if (a.continues_with("ranks", !m.ranks.empty())) a("ranks", m.ranks);
  a("entered", m.entered);
  a.rows("calls", m.calls, "a recorded call is not a list of seven");
}

void fields(auto& a, Is<CollectiveRecord> auto& m) { a("groups", m.groups); }

void fields(auto& a, Is<Standing> auto& m) {
  a("rank", m.rank, kRank);
  a.one_of("activity", m.activity, kActivityNames.all);
  a.unless_default("collective", m.collective, kCollectiveMax);
  a("step", m.step);
  a.milliseconds("age_ms", m.age);
  a.unless_default("overdue", m.overdue);
  a.unless_default("stopped", m.stopped);
  a.unless_default("paused", m.paused);
  a.unless_default("traced", m.traced);
  a.unless_default("held", m.held, kNameMax);
  a.unless_default("works", m.works);
  a("record", m.record);
}

void fields(auto& a, Is<Pace> auto& m) {
  a("rank", m.rank, kRank);
  a("steps", m.steps);
  a("load_us", m.load_us);
  a("compute_us", m.compute_us);
  a("wait_us", m.wait_us);
}

void fields(auto& a, Is<PaceChange> auto& m) {
  a.one_of("kind", m.kind, kPaceKinds);
  a("rank", m.rank, Range{-1, kRanksMax});
  a.one_of("phase", m.phase, kActivityNames.all);
  a("percent", m.percent, Range{0, kPercentMax});
  a("steps", m.steps);
  a.unless_default("before_percent", m.before_percent, Range{0, kPercentMax});
}

void fields(auto& a, Is<LearnedTimes> auto& m) {
  a("world_size", m.world_size, kRank);
  a("steps", m.steps);
  a.milliseconds("step_ms", m.step);
  a.milliseconds("start_ms", m.start);
  a.milliseconds("load_ms", m.load);
  a.milliseconds("compute_ms", m.compute);
  a.milliseconds("wait_ms", m.wait);
  a.milliseconds("save_ms", m.save);
  a.milliseconds("evaluate_ms", m.evaluate);
  if (a.continues_with("hung_at", !m.hung_at.empty())) a("hung_at", m.hung_at);
}

void fields(auto& a, Is<Outcome> auto& m) {
  a.one_of("verdict", m.verdict, kVerdicts);
  a("signal", m.signal, kSignalOrNone);
  a("reason", m.reason, kTextMax);
  a("cause", m.cause);
  a.unless_default("late", m.late);
}

void fields(auto& a, Is<SeatSnapshot> auto& m) {
  a("round", m.round, Range{0, kRoundsMax});
  a("step", m.step);
  a.rows("from", m.from, "a snapshot's agent is not a list of two");
}

void fields(auto& a, Is<Seat> auto& m) {
  a("round", m.round, kFromOne);
  a("group_rank", m.group_rank, kRank);
  a("group_world_size", m.group_world_size, kGroupSize);
  a("workers", m.workers, kWorkers);
  a("first_rank", m.first_rank, kRank);
  a("world_size", m.world_size, kGroupSize);
  a("role", m.role);
  a("first_role_rank", m.first_role_rank, kRank);
  a("role_world_size", m.role_world_size, kGroupSize);
  a("master_host", m.master_host);
  a("master_port", m.master_port);
  a("restarts", m.restarts);
  a("store_agent", m.store_agent);
  a.unless_default("learned", m.learned);
  a("kept", m.kept);
  a.unless_default("next_agent", m.next_agent);
  if constexpr (kReads<decltype(a)>)
    expect(!m.kept || m.kept->from.size() == static_cast<std::size_t>(m.workers), "'from' is not one for each worker");
}

void fields(auto& a, Is<Fingerprint> auto& m) {
  a("protocol", m.protocol);
  a("version", m.version, AsSent());
  a("nodes", m.nodes, AsSent());
  a("program", m.program, AsSent());
}

void fields(auto& a, Is<Attendance> auto& m) {
  a("nodes", m.nodes, kRank);
  a("wanted", m.nodes_wanted, kRank);
  a("workers", m.workers, kRank);
  a("awaited", m.awaited);
  a("awaited_more", m.awaited_more, kRank);
}

void fields(auto& a, Is<RoundNode> auto& m) {  // a row; `first_rank` follows from the order
  a("id", m.id);
  a("workers", m.workers, kWorkers);
  a("role", m.role);
  a("name", m.name);
  a("host", m.control.host);
  a("port", m.control.port);
}

void fields(auto& a, Is<RuleMatch> auto& m) {
  a.one_of("action", m.action, kActions);
  a("place", m.place, kTextMax);
}

void fields(auto& a, Is<Charge> auto& m) {
  a.one_of("class", m.kind, kClasses.all);
  a("restarts", m.restarts, kCharge);
  a.milliseconds("age_ms", m.age);
}

void fields(auto& a, Is<FutileStarts> auto& m) {
  a("count", m.count, kCount);
  a("failure", m.failure);
  a("last_line", m.last_line, kLastLineMax);
}

void fields(auto& a, Is<ExcludedHost> auto& m) {
  a("name", m.name);
  a("host", m.host);
  a("why", m.why, kTextMax);
  a.milliseconds("left_ms", m.left);
}

void fields(auto& a, Is<RestartCounts> auto& m) {
  a("errors", m.errors, kCount);
  a("crashes", m.crashes, kCount);
  a("out_of_memory", m.out_of_memory, kCount);
  a("hangs", m.hangs, kCount);
  a("starts", m.starts, kCount);
  a("unkillable", m.unkillable, kCount);
  a("usage", m.usage, kCount);
  a("lost_nodes", m.lost_nodes, kCount);
  a("preemptions", m.preemptions, kCount);
  a("resizes", m.resizes, kCount);
}

void fields(auto& a, Is<TimeAccount> auto& m) {  // microseconds
  for (const TimeKindName& one : kTimeKinds) a.microseconds(one.name, m[one.kind]);
}

void fields(auto& a, Is<KeptSteps> auto& m) {
  a("last", m.last);
  a("steps", m.steps);
  a.microseconds("time_us", m.time);
}

void fields(auto& a, Is<JobAccount> auto& m) {
  a("rounds", m.rounds, kCount);
  a("spent_us", m.spent);
  a.unless_default("kept", m.kept);
}

void fields(auto& a, Is<RoundSpent> auto& m) {
  a("reports", m.reports);
  a.microseconds("start_us", m.start);
  a.microseconds("restore_us", m.restore);
  a.microseconds("train_us", m.train);
  a.microseconds("evaluate_us", m.evaluate);
  a.microseconds("save_us", m.save);
  a.one_of("doing", m.doing, kTimeKindNames.all);
  a.microseconds("since_progress_us", m.since_progress);
  a.microseconds("unfinished_us", m.unfinished);
  a("steps", m.steps);
  a("first_step", m.first_step);
  a("last_step", m.last_step);
  a("snapshot_step", m.snapshot_step);
}

void fields(auto& a, Is<LedgerRecord> auto& m) {
  fields(a, m.counts);
  a("charges", m.charges);
  a("repeats", m.repeats, kCount);
  a("last_failure", m.last_failure);
  a.unless_default("last_line", m.last_line, kLastLineMax);
  a("progressed", m.progressed);
  a.milliseconds("running_ms", m.running, {.round_up = false});
  a("futile_starts", m.futile);
  a("excluded", m.excluded);
  a.unless_default("learned", m.learned);
  a.unless_default("account", m.account);
}

void fields(auto& a, Is<Electorate> auto& m) {
  a("coordinator", m.coordinator);
  a("nodes", m.nodes);
  if constexpr (kReads<decltype(a)>) expect(!m.nodes.empty(), "an electorate is empty");
}

inline void number_ranks(std::vector<RoundNode>& nodes) {
  int first_rank = 0;
  for (RoundNode& node : nodes) {
    node.first_rank = first_rank;
    first_rank += node.workers;
    expect(first_rank <= kRanksMax, "a record has too many ranks");
  }
}

void fields(auto& a, Is<NodeRange> auto& m) {
  a("least", m.least, kGroupSize);
  a("most", m.most, kGroupSize);
}

void fields(auto& a, Is<Round> auto& m) {
  a("round", m.number, kFromOne);
  a("term", m.term);
  if (!a.continues_with("nodes", !m.nodes.empty())) return;  // only_id()
  a.rows("nodes", m.nodes, "a node is not a list of six");
  if constexpr (kReads<decltype(a)>) number_ranks(m.nodes);
  a("master_host", m.master_host);
  a("master_port", m.master_port);
  a("ledger", m.ledger);
  a("coordinator", m.coordinator);
  a("before", m.previous_electorates);
  a("resized", m.resized);
  if constexpr (kReads<decltype(a)>) expect(m.find(m.coordinator), "the record's coordinator is not one of its nodes");
}

void fields(auto& a, Is<NodeView> auto& m) {
  a("id", m.id);
  a("name", m.name);
  a("host", m.host);
  a.one_of("place", m.place, kNodePlaces);
  a("group_rank", m.group_rank, Range{-1, kRanksMax});
  a("first_rank", m.first_rank, kRank);
  a("workers", m.workers, Range{0, kWorkersMax});
  a("why", m.why, kTextMax);
}

void fields(auto& a, Is<SlowRank> auto& m) {
  a("rank", m.rank, kRank);
  a.one_of("phase", m.phase, kActivityNames.all);
  a("percent", m.percent, Range{0, kPercentMax});
}

void fields(auto& a, Is<JobView> auto& m) {
  a.one_of("phase", m.phase, kJobPhases);
  a.long_milliseconds("since_ms", m.since);
  a("round", m.round, Range{0, kRoundsMax});
  a("term", m.term);
  a("coordinator", m.coordinator);
  a("nodes_min", m.nodes_min, kGroupSize);
  a("nodes_max", m.nodes_max, kGroupSize);
  a("world_size", m.world_size, kRank);
  a.long_milliseconds("backoff_ms", m.backoff);
  a("restarts_max", m.restarts_max, kCount);
  a("counts", m.counts);
  a.rows("nodes", m.nodes, "a node is no list of eight");
  a("awaited", m.awaited);
  a.rows("slow", m.slow, "a slow rank is no list of three");
  a("account", m.account);
  a.unless_none("round_age_ms", m.round_age);
}

void fields(auto& a, Is<RankView> auto& m) {
  a("rank", m.rank, kRank);
  a.one_of("activity", m.activity, kActivityNames.all);
  a.unless_default("collective", m.collective, kCollectiveMax);
  a("step", m.step);
  a.long_milliseconds("age_ms", m.age);
  a("snapshot_step", m.snapshot_step);
  a.long_milliseconds("snapshot_age_ms", m.snapshot_age);
  a.unless_default("snapshot_bytes", m.snapshot_bytes);
  a("samples_per_second", m.samples_per_second, kAnyCount);
  a("loss", m.loss);
  a("total_steps", m.total_steps);
  a("memory", m.memory);
  a("processors", m.processors);
  a.unless_default("silent", m.silent);
  a.unless_default("still", m.still);
  a.long_milliseconds("load_ms", m.load);
  a.long_milliseconds("compute_ms", m.compute);
  a.long_milliseconds("wait_ms", m.wait);
  a("pid", m.pid, kAnyCount);
  a.unless_default("stopped", m.stopped);
  a.unless_default("paused", m.paused);
  a.unless_default("held", m.held, kNameMax);
}

void fields(auto& a, Is<OutputLine> auto& m) {  // a row
  a("rank", m.rank, Range{kSeveralRanks, kRanksMax});
  a.long_milliseconds("age_ms", m.age);
  a("text", m.text, kOutputLineMax);
}

void fields(auto& a, Is<NodeReport> auto& m) {
  a("round", m.round, Range{0, kRoundsMax});
  a("group_rank", m.group_rank, kRank);
  a("name", m.name);
  a("step_us", m.step_us);
  a("ranks", m.ranks);
  a("spent", m.spent);
  a.unless_default("declined_fault", m.declined_fault);
  if (a.continues_with("last_lines", !m.last_lines.empty()))
    a.rows("last_lines", m.last_lines, "a last line is not a list of three");
}

void fields(auto& a, Is<Fault> auto& m) {
  a.one_of("kind", m.kind, kFaultNames.all);
  a("rank", m.rank, kRank);
  a.long_milliseconds("time_ms", m.time);
  a.unless_default("id", m.id);
}

void fields(auto& a, Is<Act> auto& m) {
  a.one_of("kind", m.kind, kActNames.all);
  a.unless_default("node", m.node, kActTextMax);
  a.unless_default("nodes_min", m.nodes_min, kGroupSize);
  a.unless_default("nodes_max", m.nodes_max, kGroupSize);
  a("by", m.by, kActTextMax);
  a("fault", m.fault);
  a.unless_default("workers", m.workers, Range{0, kWorkersMax});
}

void fields(auto&, Is<AskStacks> auto&) {}

void fields(auto& a, Is<AskStatus> auto& m) {
  a.unless_default("job_only", m.job_only);
  a.unless_default("last_lines", m.last_lines);
}

void fields(auto& a, Is<AskRank> auto& m) {
  a("rank", m.rank, kRank);
  a("question", m.question, AsSent{kQuestionMax});
}

void fields(auto& a, Is<Question> auto& m) { a.alternative(m, {"stacks", "status", "rank", "act"}); }

void fields(auto& a, Is<StacksText> auto& m) { a("text", m.text, kStacksTextMax); }

void fields(auto& a, Is<RankText> auto& m) {
  a("text", m.text, AsSent{kRankTextMax});
  a.unless_default("world_size", m.world_size, kRank);
}

void fields(auto& a, Is<ActResult> auto& m) {
  a("done", m.done);
  a("text", m.text, kTextMax);
}

void fields(auto& a, Is<NodeAnswer> auto& m) { a.alternative(m, {"stacks", "node", "rank"}); }
void fields(auto& a, Is<JobAnswer> auto& m) { a.alternative(m, {"stacks", "node", "rank", "job", "act"}); }

// Messages.

template <class M, class Fields>
struct Description {
  using Message = M;
  const char* type;
  Fields fields;
};
template <class M, class Fields>
constexpr Description<M, Fields> message(const char* type, Fields fields) {
  return {type, fields};
}

// From an agent.

constexpr auto kFailureText =
    message<FailureText>("failure-words", [](auto& a, auto& m) { a("text", m.text, kTextMax); });
constexpr auto kNodeInRound = [](auto& a, auto& m) {
  a.sender(m.node);
  a("round", m.round);
};

constexpr auto kHello = message<Hello>("hello", [](auto& a, auto& m) {
  a("job", m.fingerprint);
  a("control_port", m.control_port);
  a("term", m.record.term);
  a("round", m.record.round);
  a("instead_of", m.instead_of);
});
constexpr auto kHeartbeat = message<Heartbeat>("heartbeat", [](auto& a, auto& m) {
  a("number", m.number);
  a("answered", m.answered);
  a.milliseconds("loop_stood_ms", m.loop_stood);
});
constexpr auto kNodeReady = message<NodeReady>("ready", [](auto& a, auto& m) {
  a.sender(m.node);
  a("offer", m.offer);
});
constexpr auto kNodeConfirmed = message<NodeConfirmed>("confirmed", kNodeInRound);
constexpr auto kNodeRunning = message<NodeRunning>("running", kNodeInRound);
constexpr auto kNodeDone = message<NodeDone>("done", kNodeInRound);
constexpr auto kWorkerFailed = message<WorkerFailed>("failed", [](auto& a, auto& m) {
  a("failure", m.failure);
  a.sender(m.failure.node);
  a("progressed", m.progressed);
  a("rule", m.rule);
});
constexpr auto kNodeLeaves = message<NodeLeaves>("leaves", [](auto& a, auto& m) {
  a.sender(m.node);
  a("signal", m.signal, kSignal);
});
constexpr auto kJobInterrupted = message<JobInterrupted>("interrupted", [](auto& a, auto& m) {
  a.sender(m.node);
  a("signal", m.signal, kSignal);
});
constexpr auto kNodeBack = message<NodeBack>("back", [](auto& a, auto& m) {
  a.sender(m.node);
  a("round", m.round);
  a("offer", m.offer);
});
constexpr auto kNodeNotified = message<NodeNotified>("told", [](auto& a, auto& m) { a.sender(m.node); });
constexpr auto kNodeStandings = message<NodeStandings>("standings", [](auto& a, auto& m) {
  a.sender(m.node);
  a("round", m.round);
  a("workers", m.standings);
});
constexpr auto kAsked = message<Asked>("asked", [](auto& a, auto& m) {
  a.sender(m.node);
  a("serial", m.serial, kCount);
  a("question", m.question);
});
constexpr auto kAnswered = message<Answered>("answered", [](auto& a, auto& m) {
  a.sender(m.node);
  a("asker", m.asker);
  a("serial", m.serial, kCount);
  a("answer", m.answer);
});
constexpr auto kNodePace = message<NodePace>("pace", [](auto& a, auto& m) {
  a.sender(m.node);
  a("round", m.round);
  a.rows("workers", m.windows, "a worker's pace is no list of five numbers");
});
constexpr auto kNodeLearned = message<NodeLearned>("learned", [](auto& a, auto& m) {
  a.sender(m.node);
  a("round", m.round);
  a("times", m.times);
});
constexpr auto kNodeSpent = message<NodeSpent>("spent", [](auto& a, auto& m) {
  a.sender(m.node);
  a("round", m.round);
  a("spent", m.spent);
});
constexpr auto kJobWasOver = message<JobWasOver>("was-over", [](auto& a, auto& m) {
  a.sender(m.node);
  a("outcome", m.outcome);
});
constexpr auto kVoteRequest = message<VoteRequest>("vote-request", [](auto& a, auto& m) {
  a.sender(m.candidate);
  a("term", m.term, kFromOne);
  a("record", m.record);
});
constexpr auto kCoordinatorAnnouncement = message<CoordinatorAnnouncement>("call", [](auto& a, auto& m) {
  a("term", m.term);
  a("control_port", m.control_port);
});

constexpr auto kClientRequest =
    message<ClientRequest>("request", [](auto& a, auto& m) { a("line", m.line, AsSent{kClientLineMax}); });

constexpr std::tuple kFromAgent{
    kHello,        kHeartbeat,  kFailureText,    kNodeReady, kNodeConfirmed, kNodeRunning,   kNodeDone,
    kWorkerFailed, kNodeLeaves, kJobInterrupted, kNodeBack,  kNodeNotified,  kNodeStandings, kAsked,
    kAnswered,     kNodePace,   kNodeLearned,    kNodeSpent, kJobWasOver,    kVoteRequest,   kCoordinatorAnnouncement,
    kClientRequest};

// From the coordinator, which also passes on FailureText.

constexpr auto kWelcome = message<Welcome>("welcome", [](auto& a, auto& m) {
  a("your_address", m.your_address);
  a.milliseconds("lease_ms", m.lease, {.least = 1});
  a("term", m.term);
  a.milliseconds("quorum_age_ms", m.quorum_age);
  a("coordinator", m.coordinator);
  a.milliseconds("loop_limit_ms", m.loop_limit, {.least = 1});
});
constexpr auto kElsewhere = message<Elsewhere>("elsewhere", [](auto& a, auto& m) {
  a("term", m.term);
  a("agent", m.agent);
  a("record_term", m.record.term);
  a("round", m.record.round);
  a("coordinator", m.coordinator);
});
constexpr auto kHeartbeatAnswer = message<HeartbeatAnswer>("heartbeat", [](auto& a, auto& m) {
  a("number", m.number);
  a.milliseconds("quorum_age_ms", m.quorum_age);
  a("attendance", m.attendance);
});
constexpr auto kKeepRecord = message<KeepRecord>("record", [](auto& a, auto& m) {
  a("record", m.record);
  if constexpr (kReads<decltype(a)>) expect(!m.record.nodes.empty(), "'nodes' is missing");
});
constexpr auto kTakeSeat = message<TakeSeat>("seat", [](auto& a, auto& m) {
  a("seat", m.seat);
  a("term", m.term);
});
constexpr auto kStartRound = message<StartRound>("start", [](auto& a, auto& m) { a("round", m.round); });
constexpr auto kEndRound = message<EndRound>("end-round", [](auto& a, auto& m) {
  a("round", m.round);
  a("planned", m.planned);
  a("reason", m.reason, kTextMax);
  a("cause", m.cause);
});
constexpr auto kEndJob = message<EndJob>("end-job", [](auto& a, auto& m) {
  a("outcome", m.outcome);
  a("for_all", m.for_all);
});
constexpr auto kAllNotified = message<AllNotified>("all-told", [](auto&, auto&) {});
constexpr auto kExcluded = message<Excluded>("excluded", [](auto& a, auto& m) {
  a("why", m.why, kTextMax);
  a.milliseconds("lasts_ms", m.lasts);
});
constexpr auto kAskStandings = message<AskStandings>("ask-standings", [](auto& a, auto& m) { a("round", m.round); });
constexpr auto kBlameWorker = message<BlameWorker>("blame", [](auto& a, auto& m) {
  a("round", m.round);
  a("rank", m.rank, kRank);
  a("text", m.text, kTextMax);
  a.unless_default("of_all", m.of_all);
});
constexpr auto kAskNodes = message<AskNodes>("ask", [](auto& a, auto& m) {
  a("asker", m.asker);
  a("serial", m.serial, kCount);
  a("question", m.question);
});
constexpr auto kJobReply = message<JobReply>("reply", [](auto& a, auto& m) {
  a("serial", m.serial, kCount);
  a("nodes", m.nodes, kRank);
  a("answer", m.answer);
});
constexpr auto kReportAct = message<ReportAct>("report-act", [](auto& a, auto& m) {
  a("act", m.act);
  a("done", m.done);
  a("text", m.text, kTextMax);
});
constexpr auto kSuspendWorkers = message<SuspendWorkers>("suspend", [](auto& a, auto& m) {
  a("round", m.round);
  a("suspended", m.suspended);
});
constexpr auto kKeepRange = message<KeepRange>("keep-range", [](auto& a, auto& m) {
  a("record_term", m.record.term);
  a("round", m.record.round);
  a("range", m.range);
});
constexpr auto kInjectFault = message<InjectFault>("inject-fault", [](auto& a, auto& m) {
  a("round", m.round);
  a("fault", m.fault);
});
constexpr auto kTakeSnapshot = message<TakeSnapshot>("take-snapshot", [](auto& a, auto& m) { a("round", m.round); });
constexpr auto kReportPace = message<ReportPace>("pace-change", [](auto& a, auto& m) {
  a("round", m.round);
  a("change", m.change);
  a.unless_default("host", m.host);
  a.unless_default("then", m.then, kTextMax);
});
constexpr auto kVote = message<Vote>("vote", [](auto& a, auto& m) {
  a("term", m.term);
  a("granted", m.granted);
  a.milliseconds("heard_age_ms", m.heard_age, {.round_up = false});  // rounded towards a later time
  a("voter", m.voter);
  a("over", m.over);
});

constexpr auto kClientAnswer =
    message<ClientAnswer>("answer", [](auto& a, auto& m) { a("text", m.text, AsSent{kClientTextMax}); });

constexpr std::tuple kToAgent{kWelcome,      kElsewhere,  kHeartbeatAnswer, kFailureText, kKeepRecord,  kTakeSeat,
                              kStartRound,   kEndRound,   kEndJob,          kAllNotified, kExcluded,    kAskStandings,
                              kBlameWorker,  kReportPace, kAskNodes,        kJobReply,    kReportAct,   kSuspendWorkers,
                              kTakeSnapshot, kKeepRange,  kInjectFault,     kVote,        kClientAnswer};

}  // namespace ddprun::rendezvous::wire
