#include "rendezvous/peer/admission.h"

#include "rendezvous/peer/failed_sources.h"
#include "rendezvous/peer/refusal_log.h"
#include "tests/support/test.h"

namespace {

PeerSource ipv4(std::uint8_t last) { return source_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}); }
PeerSource ipv6(std::uint8_t network, std::uint8_t host) {
  return source_of({0x20, 1, 0xd, 0xb8, 0, 0, 0, network, 0, 0, 0, 0, 0, 0, 0, host});
}

AdmissionLimits limits(std::size_t all, std::size_t of_a_source) {
  return {.unauthenticated_max = all, .unauthenticated_per_source_max = of_a_source};
}

const TimePoint t0{};

}  // namespace

TEST_CASE("each IPv4 address is a source of its own, each IPv6 network of 64 bits, too", "[admission]") {
  CHECK(ipv4(1) != ipv4(2));
  CHECK(ipv6(1, 1) == ipv6(1, 2));
  CHECK(ipv6(1, 1) != ipv6(2, 1));
}

TEST_CASE("a source that has too many unauthenticated peers loses its oldest, and no other source loses any",
          "[admission]") {
  Admission admission(limits(100, 2));
  CHECK_FALSE(admission.add(1, ipv4(1)));
  CHECK_FALSE(admission.add(2, ipv4(2)));
  CHECK_FALSE(admission.add(3, ipv4(2)));
  CHECK(admission.add(4, ipv4(2)) == 2);
  CHECK(admission.add(5, ipv4(2)) == 3);
  CHECK(admission.unauthenticated() == 3);
}

TEST_CASE("when all places are taken, the source that has most loses its oldest", "[admission]") {
  Admission admission(limits(4, 3));
  admission.add(1, ipv4(1));
  admission.add(2, ipv4(2));
  admission.add(3, ipv4(2));
  admission.add(4, ipv4(3));
  CHECK(admission.add(5, ipv4(4)) == 2);
  CHECK(admission.add(6, ipv4(5)) == 1);  // all have one: the oldest
  CHECK(admission.unauthenticated() == 4);
}

TEST_CASE("who has proved itself, or is gone, takes no place any more", "[admission]") {
  Admission admission(limits(2, 2));
  admission.add(1, ipv4(1));
  admission.add(2, ipv4(1));
  admission.remove(1);
  admission.remove(1);
  admission.remove(99);
  CHECK_FALSE(admission.add(3, ipv4(1)));
  CHECK(admission.add(4, ipv4(2)) == 2);
}

TEST_CASE("a source that fails over and over is shut out, for a while at a time", "[admission]") {
  FailedSources failed({.failures_per_source_max = 10,
                        .failures_per_source_per_second = 4,
                        .source_block_time = 500ms,
                        .source_block_time_max = 500ms});
  for (int i = 0; i < 9; ++i) CHECK_FALSE(failed.on_failure(ipv4(1), t0));
  CHECK_FALSE(failed.is_blocked(ipv4(1)));
  CHECK(failed.next_deadline() == TimePoint::max());
  CHECK(failed.on_failure(ipv4(1), t0));
  CHECK(failed.is_blocked(ipv4(1)));
  CHECK_FALSE(failed.is_blocked(ipv4(2)));
  CHECK_FALSE(failed.on_failure(ipv4(1), t0));  // it was in its handshake when its source was blocked
  CHECK(failed.next_deadline() == t0 + 500ms);
  CHECK_FALSE(failed.unblock_expired(t0 + 499ms));
  CHECK(failed.unblock_expired(t0 + 500ms));
  CHECK(failed.blocked().empty());
  CHECK_FALSE(failed.on_failure(ipv4(1), t0 + 500ms));  // two of ten are forgotten
  CHECK(failed.on_failure(ipv4(1), t0 + 500ms));
  int handled = 0;  // of a flood that lasts a minute
  for (TimePoint now = t0 + 1s; now < t0 + 61s; now += 1ms) {
    failed.unblock_expired(now);
    if (failed.is_blocked(ipv4(1))) continue;
    failed.on_failure(ipv4(1), now);
    ++handled;
  }
  CHECK(handled <= 60 * 4 + 10);
  CHECK(handled >= 60 * 4 - 2);
}

TEST_CASE("a source is shut out for twice as long each time, up to a limit, until its failures are forgotten",
          "[admission]") {
  FailedSources failed({.failures_per_source_max = 40, .failures_per_source_per_second = 1});
  TimePoint now = t0;
  const auto blocked_for = [&] {
    while (!failed.on_failure(ipv4(1), now)) continue;
    const Duration time = failed.next_deadline() - now;
    now = failed.next_deadline();
    REQUIRE(failed.unblock_expired(now));
    return time;
  };
  for (const Duration time : {1s, 2s, 4s, 8s, 8s}) CHECK(blocked_for() == time);
  now += 31s;
  CHECK(blocked_for() == 8s);
  now += 32s;
  CHECK(blocked_for() == 1s);
}

namespace {

PeerSource numbered(std::size_t number) {
  return source_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, static_cast<std::uint8_t>(number >> 16),
                    static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)});
}

// Each source connects and fails once in a millisecond while it is not blocked: how much of a core that takes.
double part_of_a_core(FailedSources& failed, std::size_t sources, Duration time) {
  const Duration handshake = 300us, connection = AdmissionLimits{}.connection_cost;
  Duration cost{};
  for (TimePoint now = t0; now < t0 + time; now += 1ms) {
    failed.unblock_expired(now);
    for (std::size_t i = 0; i < sources; ++i) {
      if (failed.is_blocked(numbered(i))) continue;  // by the kernel
      cost += handshake + connection;
      failed.on_failure(numbered(i), now, handshake);
    }
  }
  return std::chrono::duration<double>(cost) / std::chrono::duration<double>(time);
}

}  // namespace

TEST_CASE("failures of all sources together cost at most a twentieth of a core", "[admission]") {
  FailedSources failed(AdmissionLimits{});
  CHECK(part_of_a_core(failed, GENERATE(64U, 500U), 60s) < 0.05);
}

TEST_CASE("a member that is evicted in a flood is not shut out", "[admission]") {
  FailedSources failed(AdmissionLimits{});
  for (std::size_t i = 0; i < 3000; ++i) failed.on_failure(numbered(i % 500), t0, 300us);
  CHECK(failed.is_blocked(numbered(499)));
  for (int i = 0; i < 4; ++i) CHECK_FALSE(failed.on_failure(ipv4(1), t0));
  CHECK_FALSE(failed.on_failure(ipv4(2), t0, 100us));  // in the middle of its handshake
}

TEST_CASE("a source that a member has come from is shut out no earlier in a flood than without one", "[admission]") {
  FailedSources failed(AdmissionLimits{});
  failed.on_success(ipv4(1));
  for (std::size_t i = 0; i < 3000; ++i) failed.on_failure(numbered(i % 500), t0, 300us);
  CHECK(failed.is_blocked(numbered(499)));
  for (int i = 0; i < 255; ++i) failed.on_failure(ipv4(1), t0, 300us);
  CHECK_FALSE(failed.is_blocked(ipv4(1)));
  failed.on_failure(ipv4(1), t0, 300us);
  CHECK(failed.is_blocked(ipv4(1)));
  CHECK(failed.next_deadline() == t0 + 1s);
}

TEST_CASE("a source that connects and says nothing is shut out later than one that fails", "[admission]") {
  FailedSources failed({.failures_per_source_max = 10});
  for (int i = 0; i < 9 * 16; ++i) CHECK_FALSE(failed.on_silent_close(ipv4(1), t0));
  CHECK(failed.on_silent_close(ipv4(1), t0));
}

TEST_CASE("a probe that connects once a second and says nothing is not shut out in a flood", "[admission]") {
  FailedSources failed(AdmissionLimits{});
  for (TimePoint now = t0; now < t0 + 60s; now += 1s) {
    for (std::size_t i = 0; i < 3000; ++i) failed.on_failure(numbered(1000 + i), now, 300us);
    CHECK_FALSE(failed.on_silent_close(ipv4(1), now));
  }
}

TEST_CASE("sources are let in in the order in which they were shut out", "[admission]") {
  FailedSources failed({.failures_per_source_max = 1});
  for (std::uint8_t i = 0; i < 3; ++i) CHECK(failed.on_failure(ipv4(i), t0 + i * 100ms));
  CHECK(failed.blocked() == std::vector{ipv4(2), ipv4(1), ipv4(0)});
  CHECK(failed.unblock_expired(t0 + 1100ms));
  CHECK(failed.blocked() == std::vector{ipv4(2)});
  CHECK(failed.next_deadline() == t0 + 1200ms);
}

TEST_CASE("where a member comes from, failures count from nothing", "[admission]") {
  FailedSources failed(AdmissionLimits{});
  for (int i = 0; i < 300; ++i) failed.on_failure(ipv4(1), t0);
  CHECK(failed.is_blocked(ipv4(1)));
  CHECK(failed.on_success(ipv4(1)));
  CHECK_FALSE(failed.is_blocked(ipv4(1)));
  CHECK_FALSE(failed.on_failure(ipv4(1), t0));
  CHECK_FALSE(failed.on_success(ipv4(1)));
}

TEST_CASE("failures of more sources than are remembered shut nobody else out", "[admission]") {
  FailedSources failed({.failures_per_source_max = 1, .failures_per_source_per_second = 1, .failed_sources_max = 3});
  for (std::uint8_t i = 0; i < 200; ++i) failed.on_failure(ipv4(i), t0);
  CHECK(failed.is_blocked(ipv4(0)));
  CHECK_FALSE(failed.is_blocked(ipv4(100)));
  failed.unblock_expired(t0 + 2s);
  failed.on_failure(ipv4(100), t0 + 2s);  // the first three are forgotten
  CHECK(failed.is_blocked(ipv4(100)));
}

TEST_CASE("a refused source is told of once a minute, with what was not told since", "[admission]") {
  RefusalLog log({});
  CHECK(log.refused(ipv4(1), "10.0.0.1", "it presented no token", t0) == "refused 10.0.0.1: it presented no token");
  for (int i = 0; i < 41; ++i) CHECK_FALSE(log.refused(ipv4(1), "10.0.0.1", "it presented no token", t0 + 59s));
  CHECK(log.refused(ipv4(2), "10.0.0.2", "it is not ddprun", t0 + 59s) == "refused 10.0.0.2: it is not ddprun");
  CHECK(log.refused(ipv4(1), "10.0.0.1", "it presented no token", t0 + 60s) ==
        "refused 10.0.0.1: it presented no token, and 41 times more since the last such line");
  CHECK_FALSE(log.refused(ipv4(1), "10.0.0.1", "it presented no token", t0 + 119s));
  CHECK(log.refused(ipv4(1), "10.0.0.1", "x", t0 + 1h) ==
        "refused 10.0.0.1: x, and 1 times more since the last such line");
}

TEST_CASE("refusals of many sources fill neither log nor memory", "[admission]") {
  RefusalLog log({.refused_sources_max = 3});
  int lines = 0;
  for (std::uint8_t i = 0; i < 200; ++i) lines += log.refused(ipv4(i), "x", "y", t0 + i * 100ms).has_value();
  CHECK(lines == 3);
  CHECK(log.refused(ipv4(201), "x", "y", t0 + 61s));
}
