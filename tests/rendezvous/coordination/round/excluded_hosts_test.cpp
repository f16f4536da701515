#include "rendezvous/coordination/round/excluded_hosts.h"

#include "tests/support/test.h"

namespace {

const TimePoint t0{};
const NodeOffer one{.host = "10.0.0.1", .name = "gpu-1"}, two{.host = "10.0.0.2", .name = "gpu-2"};

}  // namespace

TEST_CASE("failures within the time exclude a machine, those before it do not count", "[excluded]") {
  ExcludedHosts hosts({.failures = 2, .within = 1h, .lasts = 30min});
  CHECK_FALSE(hosts.note_failure(one, t0));
  CHECK_FALSE(hosts.note_failure(two, t0));
  CHECK_FALSE(hosts.note_failure(one, t0 + 1h));
  CHECK(hosts.note_failure(one, t0 + 90min));
  REQUIRE(hosts.why(one));
  CHECK(*hosts.why(one) == "failures of workers there: 2 in 1 h");
  CHECK_FALSE(hosts.why(two));
  CHECK(hosts.next_end() == t0 + 2h);
  CHECK_FALSE(hosts.forget_old(t0 + 2h - 1s));
  CHECK(hosts.forget_old(t0 + 2h));
  CHECK(hosts.empty());
  CHECK_FALSE(hosts.note_failure(one, t0 + 2h));  // begins again
}

TEST_CASE("where failures exclude nobody a rule still does", "[excluded]") {
  ExcludedHosts hosts({.failures = 0});
  for (int i = 0; i < 9; ++i) CHECK_FALSE(hosts.note_failure(one, t0));
  hosts.exclude(one, "a rule says so", t0);
  CHECK(hosts.why(one));
}

TEST_CASE("a machine is the same by its name, whatever its address", "[excluded]") {
  ExcludedHosts hosts({});
  hosts.exclude({.host = "127.0.0.1", .name = "gpu-1"}, "why", t0);
  CHECK(hosts.why(one));
  CHECK_FALSE(hosts.why({.host = "127.0.0.1", .name = "gpu-2"}));
}

TEST_CASE("excluded machines are known from a record, for as long as was left", "[excluded]") {
  const ExclusionPolicy policy{.lasts = 1h};
  ExcludedHosts before(policy);
  before.exclude(one, "why", t0);
  const std::vector<ExcludedHost> record = before.record(t0 + 10min);
  CHECK(record == std::vector<ExcludedHost>{{"gpu-1", "10.0.0.1", "why", 50min}});
  ExcludedHosts after(policy), late(policy);
  after.restore(record, 20min, t0 + 100h);
  CHECK(after.next_end() == t0 + 100h + 30min);
  late.restore(record, 51min, t0 + 100h);
  CHECK(late.empty());
}
