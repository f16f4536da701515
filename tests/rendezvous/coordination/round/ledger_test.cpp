#include "rendezvous/coordination/round/ledger.h"

#include "rendezvous/base/random.h"
#include "rendezvous/coordination/wire/ledger_file.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

const TimePoint t0{};
const ExitStatus killed{.signal = SIGKILL};
const ExitStatus crashed{.signal = SIGSEGV};
const ExitStatus code_1{.code = 1};

Ruling charge(Ledger&& ledger, const ExitStatus& status, bool progressed, TimePoint now) {
  return ledger.charge_failure({.status = status, .kind = class_of(status, progressed), .progressed = progressed}, now);
}

Ruling charge(Ledger& ledger, const ExitStatus& status, bool progressed, TimePoint now, const std::string& line = {}) {
  return ledger.charge_failure(
      {.status = status, .kind = class_of(status, progressed), .progressed = progressed, .last_line = line}, now);
}

}  // namespace

TEST_CASE("a first failure is restarted at once", "[ledger]") {
  Ledger ledger({.max_restarts = 3}, t0);
  const Ruling ruling = charge(ledger, killed, false, t0 + 1s);
  REQUIRE(ruling.restart_at);
  CHECK(*ruling.restart_at == t0 + 1s);
  CHECK(ruling.reason == "restart 1 of 3");
  CHECK(ledger.counts().spent() == 1);
}

TEST_CASE("the same failure twice before any progress ends the job", "[ledger]") {
  Ledger ledger({.max_restarts = 3}, t0);
  CHECK(charge(ledger, code_1, false, t0).restart_at);
  const Ruling second = charge(ledger, code_1, false, t0 + 1s);
  CHECK_FALSE(second.restart_at);
  CHECK(second.reason == "the same failure twice in a row before any progress");
}

TEST_CASE("another failure, or the same one after progress, is restarted", "[ledger]") {
  Ledger ledger({.max_restarts = 9}, t0);
  CHECK(charge(ledger, code_1, false, t0).restart_at);
  CHECK(charge(ledger, killed, false, t0).restart_at);
  CHECK(charge(ledger, code_1, false, t0).restart_at);
  CHECK(charge(ledger, code_1, true, t0, "reset").restart_at);
}

TEST_CASE("the same exit code with the same last line ends the job after progress, too", "[ledger]") {
  Ledger ledger({.max_restarts = 9}, t0);
  CHECK(charge(ledger, code_1, true, t0, "KeyError: 'lr'").restart_at);
  const Ruling second = charge(ledger, code_1, true, t0 + 1h, "KeyError: 'lr'");
  CHECK_FALSE(second.restart_at);
  CHECK(second.reason == "the same failure twice in a row, with the same last line of stderr");
}

TEST_CASE("after progress, another last line, another code or none to compare with is another failure", "[ledger]") {
  Ledger ledger({.max_restarts = 9}, t0);
  CHECK(charge(ledger, code_1, true, t0, "KeyError: 'lr'").restart_at);
  CHECK(charge(ledger, code_1, true, t0, "ConnectionError: reset").restart_at);
  CHECK(charge(ledger, {.code = 2}, true, t0, "ConnectionError: reset").restart_at);
  CHECK(charge(ledger, code_1, true, t0, "ConnectionError: reset").restart_at);  // not twice in a row
  CHECK(charge(ledger, code_1, true, t0).restart_at);
}

TEST_CASE("lines that differ in numbers, and silence at the same age, are the same failure again", "[ledger]") {
  Ledger ledger({.max_restarts = 9}, t0);
  CHECK(charge(ledger, code_1, true, t0, "ValueError: bad label 10 at row 77").restart_at);
  CHECK(charge(ledger, code_1, true, t0, "ValueError: bad label 1 at row 1234").reason ==
        "the same failure twice in a row, with the same last line of stderr but for numbers");

  const auto silent = [&](int code, Duration ran, bool reported = false) {
    const ExitStatus status{.code = code};
    return ledger.charge_failure({.status = status, .progressed = true, .ran = ran, .reported = reported}, t0);
  };
  CHECK(silent(5, 100s).restart_at);
  CHECK(silent(5, 200s).restart_at);        // at another age
  CHECK(silent(5, 200s, true).restart_at);  // its steps may have gone on from a snapshot
  CHECK(silent(5, 200s).restart_at);
  CHECK(silent(5, 190s).reason == "the same exit code twice in a row, at the same age and without a word on stderr");
}

TEST_CASE("another coordinator knows the last line, too", "[ledger]") {
  Ledger before({.max_restarts = 9}, t0);
  CHECK(charge(before, code_1, true, t0, "KeyError: 'lr'").restart_at);
  Ledger after({.max_restarts = 9}, t0, 0, before.record(t0));
  CHECK_FALSE(charge(after, code_1, true, t0, "KeyError: 'lr'").restart_at);
}

TEST_CASE("restarts end when the budget is spent", "[ledger]") {
  Ledger ledger({.max_restarts = 2}, t0);
  CHECK(charge(ledger, code_1, true, t0).restart_at);
  CHECK(charge(ledger, killed, true, t0).restart_at);
  const Ruling last = charge(ledger, crashed, true, t0);
  CHECK_FALSE(last.restart_at);
  CHECK(last.reason == "all restarts are used up (2 of 2)");
  CHECK(ledger.counts().spent() == 2);
  CHECK_FALSE(charge(Ledger({.max_restarts = 0}, t0), killed, true, t0).restart_at);
}

TEST_CASE("a program that cannot be started is not tried again, nor is one that is stuck in the kernel", "[ledger]") {
  Ledger ledger({.max_restarts = 3}, t0);
  CHECK_FALSE(charge(ledger, {.start_error = ENOENT}, false, t0).restart_at);
  CHECK_FALSE(charge(ledger, {.stuck = true}, true, t0).restart_at);
}

TEST_CASE("a worker whose work is done but could not be kept is not started again", "[ledger]") {
  Ledger ledger({.max_restarts = 3}, t0);
  const Ruling ruling = charge(ledger, {.code = 73}, true, t0);
  CHECK_FALSE(ruling.restart_at);
  CHECK(ruling.final);
  CHECK(ruling.reason == "exit code 73 means that a restart would only repeat the same");
  CHECK(ledger.counts().spent() == 0);
}

TEST_CASE("a usage error ends the job at once, but the same code after progress is a failure like any other",
          "[ledger]") {
  Ledger ledger({.max_restarts = 3}, t0);
  CHECK(charge(ledger, {.code = 2}, true, t0).restart_at);
  const Ruling ruling = charge(ledger, {.code = 2}, false, t0);
  CHECK_FALSE(ruling.restart_at);
  CHECK(ruling.final);
  CHECK(ruling.reason == "exit code 2 before any progress is a usage error, which a restart cannot fix");
  CHECK(charge(Ledger({.max_restarts = 3}, t0), {.signal = 2}, false, t0).restart_at);
  CHECK(charge(Ledger({.max_restarts = 0}, t0), {.code = 73}, true, t0).final);
}

TEST_CASE("the same failure again and again is waited out ever longer, up to a limit, with jitter", "[ledger]") {
  Ledger ledger({.max_restarts = 100, .backoff_first = 1s, .backoff_max = 8s}, t0, 7);
  CHECK(charge(ledger, killed, true, t0).restart_at == t0);
  Duration full = 1s;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const Duration wait = *charge(ledger, killed, true, t0).restart_at - t0;
    CHECK(wait >= full / 2);
    CHECK(wait < full * 3 / 2);
    full = std::min<Duration>(full * 2, 8s);
  }
  CHECK(*charge(ledger, crashed, true, t0).restart_at == t0);  // another failure starts afresh
}

TEST_CASE("equal seeds give equal waits", "[ledger]") {
  Ledger one({.max_restarts = 9}, t0, 5), two({.max_restarts = 9}, t0, 5);
  for (int i = 0; i < 9; ++i)
    CHECK(charge(one, killed, true, t0).restart_at == charge(two, killed, true, t0).restart_at);
}

TEST_CASE("a class with a limit of its own is counted apart from the others", "[ledger]") {
  Ledger ledger({.max_restarts = 1, .limits = {{FailureClass::crash, {2, {}}}}}, t0);
  CHECK(charge(ledger, killed, true, t0).reason == "restart 1 of 2 after crash");
  CHECK(charge(ledger, code_1, true, t0).reason == "restart 1 of 1");
  CHECK(charge(ledger, crashed, true, t0).restart_at);
  const Ruling crash = charge(ledger, killed, true, t0);
  CHECK_FALSE(crash.restart_at);
  CHECK(crash.reason == "all restarts after crash are used up (2 of 2)");
  CHECK_FALSE(charge(ledger, code_1, true, t0).restart_at);
  CHECK(ledger.counts() == RestartCounts{.errors = 1, .crashes = 2});
}

TEST_CASE("of a limit within a time only the restarts of that time count", "[ledger]") {
  Ledger ledger({.limits = {{FailureClass::crash, {2, 1h}}}, .credit_after = {}}, t0);
  CHECK(charge(ledger, killed, true, t0).restart_at);
  CHECK(charge(ledger, killed, true, t0 + 30min).restart_at);
  CHECK(charge(ledger, killed, true, t0 + 59min).reason == "all restarts after crash are used up (2 of 2 in 1 h)");
  CHECK(charge(ledger, killed, true, t0 + 1h).restart_at);
}

TEST_CASE("running with progress earns restarts back, running without does not", "[ledger]") {
  Ledger ledger({.max_restarts = 1, .credit_after = 1h}, t0);
  CHECK(charge(ledger, killed, true, t0).restart_at);
  const ChargedFailure later{.status = code_1, .kind = FailureClass::error, .progressed = true, .ran = 61min};
  CHECK(ledger.charge_failure(later, t0 + 2h).restart_at);
  ChargedFailure idle = later;
  idle.status = killed;
  idle.progressed = false;
  CHECK_FALSE(ledger.charge_failure(idle, t0 + 4h).restart_at);
}

TEST_CASE("memory that runs out is worth one restart", "[ledger]") {
  Ledger ledger({.max_restarts = 9, .credit_after = {}}, t0);
  const ChargedFailure memory{.status = killed, .kind = FailureClass::out_of_memory, .progressed = true};
  CHECK(ledger.charge_failure(memory, t0).restart_at);
  CHECK(charge(ledger, code_1, true, t0).restart_at);
  const Ruling again = ledger.charge_failure(memory, t0);
  CHECK_FALSE(again.restart_at);
  CHECK(again.reason.starts_with("memory ran out before"));
  Ledger allowed({.limits = {{FailureClass::out_of_memory, {3, {}}}}}, t0);
  for (int i = 0; i < 3; ++i) CHECK(allowed.charge_failure(memory, t0).restart_at);
}

TEST_CASE("a restart by a rule is refused by limits alone", "[ledger]") {
  Ledger ledger({.max_restarts = 3}, t0);
  const ChargedFailure usage{.status = {.code = 2}, .kind = FailureClass::usage, .by_rule = true};
  for (int i = 0; i < 3; ++i) CHECK(ledger.charge_failure(usage, t0).restart_at);
  CHECK(ledger.charge_failure(usage, t0).reason == "all restarts are used up (3 of 3)");
}

TEST_CASE("lost nodes are counted, and limited only where their class has a limit", "[ledger]") {
  Ledger free({}, t0);
  for (int i = 0; i < 100; ++i) CHECK(free.charge_lost_node(t0).restart_at);
  CHECK(free.counts().lost_nodes == 100);
  Ledger limited({.limits = {{FailureClass::lost_node, {1, 1h}}}}, t0);
  CHECK(limited.charge_lost_node(t0).restart_at);
  CHECK(limited.charge_lost_node(t0 + 1min).reason == "all restarts after lost-node are used up (1 of 1 in 1 h)");
}

TEST_CASE("the same failure in three starts in a row, before any progress, is final", "[ledger]") {
  LedgerRecord record;
  const auto start = [&](const ExitStatus& status, bool progressed) {
    Ledger ledger({.max_restarts = 0}, t0, 0, record);
    const Ruling ruling = charge(ledger, status, progressed, t0);
    CHECK_FALSE(ruling.restart_at);
    record = for_next_start(ledger.record(t0), true);
    return ruling;
  };
  CHECK_FALSE(start(code_1, false).final);
  CHECK_FALSE(start(code_1, false).final);
  const Ruling third = start(code_1, false);
  CHECK(third.final);
  CHECK(third.reason == "the same failure in 3 starts in a row, before any progress");
  record = {};
  start(code_1, false);
  start(code_1, true);  // progress between
  start(code_1, false);
  CHECK_FALSE(start(code_1, false).final);
  start(killed, false);  // another failure between
  CHECK_FALSE(start(code_1, false).final);
}

TEST_CASE("a record that goes on elsewhere keeps the age of its restarts", "[ledger]") {
  const RestartPolicy policy{.limits = {{FailureClass::crash, {1, 1h}}}, .credit_after = {}};
  Ledger before(policy, t0);
  CHECK(charge(before, killed, true, t0).restart_at);
  const TimePoint other_clock = t0 + 1'000h;
  Ledger soon(policy, other_clock, 0, before.record(t0 + 10min), 20min),
      late(policy, other_clock, 0, before.record(t0 + 10min), 50min);
  CHECK_FALSE(charge(soon, killed, true, other_clock).restart_at);
  CHECK(charge(late, killed, true, other_clock).restart_at);
}

TEST_CASE("a start after a failed one has all its restarts, one after a preemption what was left", "[ledger]") {
  Ledger ledger({.max_restarts = 1}, t0);
  CHECK(charge(ledger, killed, true, t0).restart_at);
  Ledger requeued({.max_restarts = 1}, t0, 0, for_next_start(ledger.record(t0), false));
  CHECK_FALSE(charge(requeued, code_1, true, t0).restart_at);
  Ledger again({.max_restarts = 1}, t0, 0, for_next_start(ledger.record(t0), true));
  CHECK(charge(again, code_1, true, t0).restart_at);
}

// Counts by another way than the ledger: all restarts granted, with their times.
TEST_CASE("no random sequence of events gets more restarts than its limits and its progress allow", "[ledger]") {
  constexpr FailureClass kKinds[] = {FailureClass::error, FailureClass::crash, FailureClass::out_of_memory,
                                     FailureClass::hang,  FailureClass::start, FailureClass::lost_node};
  const RestartPolicy policy{
      .max_restarts = 4,
      .limits = {{FailureClass::crash, {5, 1h}}, {FailureClass::lost_node, {7, 30min}}, {FailureClass::hang, {2, {}}}},
      .credit_after = 2h,
      .backoff_first = 0s};
  std::uint64_t random = GENERATE(1u, 2u, 3u, 4u);
  const auto draw = [&](std::uint64_t below) { return next_random(random) % below; };
  TimePoint now = t0;
  std::optional<Ledger> ledger(std::in_place, policy, now, 1);
  std::map<FailureClass, std::deque<TimePoint>> windows;
  Duration running{};        // with progress
  std::map<bool, int> live;  // of the shared limit (false) and that of hangs (true)
  for (int event = 0; event < test::often(250'000); ++event) {
    now += std::chrono::seconds(draw(600));
    if (draw(50) == 0) ledger.emplace(policy, now, 1, ledger->record(now));  // another coordinator goes on
    if (draw(500) == 0) ledger.emplace(policy, now, 1, for_next_start(ledger->record(now), false));
    const FailureClass kind = kKinds[draw(std::size(kKinds))];
    const ChargedFailure failure{.status = {.code = 1 + static_cast<int>(draw(100))},
                                 .kind = kind,
                                 .progressed = draw(2) == 0,
                                 .ran = std::chrono::minutes(draw(300)),
                                 .by_rule = draw(2) == 0};
    const bool lost = kind == FailureClass::lost_node;
    const Ruling ruling = lost ? ledger->charge_lost_node(now) : ledger->charge_failure(failure, now);
    if (!lost && failure.progressed) running += failure.ran;
    const int earned = static_cast<int>(running / *policy.credit_after);
    running %= *policy.credit_after;
    for (auto& [hangs, count] : live) count = std::max(0, count - earned);
    if (!ruling.restart_at) continue;
    if (const auto limit = policy.limits.find(kind); limit != policy.limits.end() && limit->second.within) {
      std::deque<TimePoint>& of_kind = windows[kind];
      of_kind.push_back(now);
      while (now - of_kind.front() >= *limit->second.within) of_kind.pop_front();
      if (std::ssize(of_kind) > limit->second.most) FAIL(name_of(kind) << " at event " << event);
    } else {
      const bool hangs = kind == FailureClass::hang;
      if (++live[hangs] > (hangs ? 2 : policy.max_restarts)) FAIL(name_of(kind) << " at event " << event);
    }
  }
}

TEST_CASE("places where workers hung stay with the job, each once, the last eight, until it fails", "[ledger]") {
  Ledger ledger({.max_restarts = 3}, t0);
  for (int i = 0; i < 9; ++i) ledger.learn_hung_at("f (a.py:" + std::to_string(i) + ")");
  const int changes = ledger.changes();
  ledger.learn_hung_at("f (a.py:8)");
  ledger.learn_hung_at("");
  CHECK(ledger.changes() == changes);
  for (const int round : {1, 1, 2}) ledger.learn(round, {.world_size = 2, .steps = 20, .step = 10ms});
  const LedgerRecord record = ledger.record(t0);
  REQUIRE(record.learned.hung_at.size() == 8);
  CHECK(record.learned.hung_at.front() == "f (a.py:1)");
  const auto read = std::get<LedgerRecord>(read_ledger(ledger_text(record, {}), {}));
  CHECK(read.learned.hung_at == record.learned.hung_at);
  CHECK(for_next_start(record, false).learned.hung_at.size() == 8);
  CHECK(for_next_start(record, true).learned.hung_at.empty());
}

TEST_CASE(
    "who says that it cannot begin is not started again, unless there has been progress or a limit or rule says so",
    "[ledger]") {
  const auto ends = [](Ledger& ledger, ChargedFailure failure) {
    failure.status = code_1;
    failure.kind = FailureClass::start;
    failure.cannot_begin = true;
    return !ledger.charge_failure(failure, t0).restart_at;
  };
  Ledger fresh({.max_restarts = 3}, t0);
  CHECK(ends(fresh, {}));
  Ledger by_rule({.max_restarts = 3}, t0);
  CHECK_FALSE(ends(by_rule, {.by_rule = true}));
  Ledger with_limit({.max_restarts = 3, .limits = {{FailureClass::start, {1, {}}}}}, t0);
  CHECK_FALSE(ends(with_limit, {}));
  Ledger worked({.max_restarts = 3}, t0);
  CHECK_FALSE(ends(worked, {.progressed = true}));
  CHECK(charge(worked, crashed, false, t0).restart_at);
  CHECK_FALSE(ends(worked, {}));  // what it needs was there before
}
