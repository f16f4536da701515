#include "rendezvous/coordination/ledger.h"

#include <csignal>

#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using namespace std::chrono_literals;

namespace {

const TimePoint t0{};
const ExitStatus killed{.signal = SIGKILL};
const ExitStatus crashed{.signal = SIGSEGV};
const ExitStatus code_1{.code = 1};

}  // namespace

TEST_CASE("a first failure is restarted at once", "[ledger]") {
  Ledger ledger({.max_restarts = 3});
  const Ruling ruling = ledger.charge_failure(killed, false, t0 + 1s);
  REQUIRE(ruling.restart_at);
  CHECK(*ruling.restart_at == t0 + 1s);
  CHECK(ruling.reason == "restart 1 of 3");
  CHECK(ledger.counts().spent() == 1);
}

TEST_CASE("the same failure twice before any progress ends the job", "[ledger]") {
  Ledger ledger({.max_restarts = 3});
  CHECK(ledger.charge_failure(code_1, false, t0).restart_at);
  const Ruling second = ledger.charge_failure(code_1, false, t0 + 1s);
  CHECK_FALSE(second.restart_at);
  CHECK(second.reason == "the same failure twice in a row before any progress");
}

TEST_CASE("another failure, or the same one after progress, is restarted", "[ledger]") {
  Ledger ledger({.max_restarts = 9});
  CHECK(ledger.charge_failure(code_1, false, t0).restart_at);
  CHECK(ledger.charge_failure(killed, false, t0).restart_at);
  CHECK(ledger.charge_failure(code_1, false, t0).restart_at);
  CHECK(ledger.charge_failure(code_1, true, t0).restart_at);
}

TEST_CASE("the same exit code with the same last line ends the job after progress, too", "[ledger]") {
  Ledger ledger({.max_restarts = 9});
  CHECK(ledger.charge_failure(code_1, true, t0, "KeyError: 'lr'").restart_at);
  const Ruling second = ledger.charge_failure(code_1, true, t0 + 1h, "KeyError: 'lr'");
  CHECK_FALSE(second.restart_at);
  CHECK(second.reason == "the same failure twice in a row, with the same last line of stderr");
}

TEST_CASE("after progress, another last line, another code or none to compare is another failure", "[ledger]") {
  Ledger ledger({.max_restarts = 9});
  CHECK(ledger.charge_failure(code_1, true, t0, "KeyError: 'lr'").restart_at);
  CHECK(ledger.charge_failure(code_1, true, t0, "ConnectionError: reset").restart_at);
  CHECK(ledger.charge_failure({.code = 2}, true, t0, "ConnectionError: reset").restart_at);
  CHECK(ledger.charge_failure(code_1, true, t0, "ConnectionError: reset").restart_at);  // not twice in a row
  CHECK(ledger.charge_failure(code_1, true, t0).restart_at);
  CHECK(ledger.charge_failure(code_1, true, t0).restart_at);
}

TEST_CASE("another coordinator knows the last line, too", "[ledger]") {
  Ledger before({.max_restarts = 9});
  CHECK(before.charge_failure(code_1, true, t0, "KeyError: 'lr'").restart_at);
  Ledger after({.max_restarts = 9}, 0, before.record());
  CHECK_FALSE(after.charge_failure(code_1, true, t0, "KeyError: 'lr'").restart_at);
}

TEST_CASE("a worker that is stuck in the kernel is not started again", "[ledger]") {
  Ledger ledger({.max_restarts = 3});
  CHECK_FALSE(ledger.charge_failure({.stuck = true}, true, t0).restart_at);
}

TEST_CASE("restarts end when the budget is spent", "[ledger]") {
  Ledger ledger({.max_restarts = 2});
  CHECK(ledger.charge_failure(code_1, true, t0).restart_at);
  CHECK(ledger.charge_failure(killed, true, t0).restart_at);
  const Ruling last = ledger.charge_failure(crashed, true, t0);
  CHECK_FALSE(last.restart_at);
  CHECK(last.reason == "all restarts are used up (2 of 2)");
  CHECK(ledger.counts().spent() == 2);
}

TEST_CASE("no restarts are given where none are allowed", "[ledger]") {
  Ledger ledger({.max_restarts = 0});
  CHECK_FALSE(ledger.charge_failure(killed, true, t0).restart_at);
}

TEST_CASE("a program that cannot be started is not tried again", "[ledger]") {
  Ledger ledger({.max_restarts = 3});
  CHECK_FALSE(ledger.charge_failure({.start_error = ENOENT}, false, t0).restart_at);
}

TEST_CASE("a worker whose work is done but could not be kept is not started again", "[ledger]") {
  Ledger ledger({.max_restarts = 3});
  const Ruling ruling = ledger.charge_failure({.code = 73}, true, t0);
  CHECK_FALSE(ruling.restart_at);
  CHECK(ruling.final);
  CHECK(ruling.reason == "exit code 73 says that a restart would only do the same again");
  CHECK(ledger.counts().spent() == 0);
}

TEST_CASE("a usage error ends the job at once, but the same code after progress is a failure like any other",
          "[ledger]") {
  Ledger ledger({.max_restarts = 3});
  CHECK(ledger.charge_failure({.code = 2}, true, t0).restart_at);
  const Ruling ruling = ledger.charge_failure({.code = 2}, false, t0);
  CHECK_FALSE(ruling.restart_at);
  CHECK(ruling.final);
  CHECK(ruling.reason == "exit code 2 before any progress is a usage error, which no restart mends");
  CHECK(Ledger({.max_restarts = 3}).charge_failure({.signal = 2}, false, t0).restart_at);
  CHECK(Ledger({.max_restarts = 0}).charge_failure({.code = 73}, true, t0).final);
}

TEST_CASE("the same failure again and again is waited out ever longer, up to a limit, with jitter", "[ledger]") {
  Ledger ledger({.max_restarts = 100, .backoff_first = 1s, .backoff_max = 8s}, 7);
  CHECK(ledger.charge_failure(killed, true, t0).restart_at == t0);
  Duration full = 1s;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const Duration wait = *ledger.charge_failure(killed, true, t0).restart_at - t0;
    CHECK(wait >= full / 2);
    CHECK(wait < full * 3 / 2);
    full = std::min<Duration>(full * 2, 8s);
  }
  CHECK(*ledger.charge_failure(crashed, true, t0).restart_at == t0);  // another failure starts afresh
}

TEST_CASE("equal seeds give equal waits", "[ledger]") {
  Ledger one({.max_restarts = 9}, 5), two({.max_restarts = 9}, 5);
  for (int i = 0; i < 9; ++i)
    CHECK(one.charge_failure(killed, true, t0).restart_at == two.charge_failure(killed, true, t0).restart_at);
}
