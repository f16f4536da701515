#include "agent/channel/timer_table.h"

#include "tests/support/test.h"

namespace {

const WallTime t0(1'700'000'000s);

TimerRequest request(pid_t pid, const std::string& scope, WallTime expires, int signal = SIGKILL) {
  return {pid, scope, expires, signal};
}

std::string mistake(const std::string& line) {
  const TimerLine parsed = parse_timer_line(line);
  const auto* words = std::get_if<std::string>(&parsed);
  return words ? *words : "a request";
}

}  // namespace

TEST_CASE("a timer request is read as torchrun's client writes it", "[timer]") {
  const auto line = parse_timer_line(
      R"({"version": 1, "pid": 123, "scope_id": "step", "expiration_time": 1700000000.5, "signal": 9})");
  const auto& request = std::get<TimerRequest>(line);
  CHECK(request.pid == 123);
  CHECK(request.scope == "step");
  CHECK(request.expires == t0 + 500ms);
  CHECK(request.signal == 9);
  const auto release =
      parse_timer_line(R"({"version": 1, "pid": 123, "scope_id": "step", "expiration_time": -1, "signal": 0})");
  CHECK_FALSE(std::get<TimerRequest>(release).expires);
}

TEST_CASE("a line that is no timer request is named, not obeyed", "[timer]") {
  CHECK(mistake("hello").starts_with("not a line of JSON"));
  CHECK(mistake("[]").starts_with("not a line of JSON"));
  CHECK(mistake(R"({"scope_id": "s", "expiration_time": 1, "signal": 9})")
            .starts_with("its \"pid\" is not a process id"));
  CHECK(mistake(R"({"pid": -1, "scope_id": "s", "expiration_time": 1, "signal": 9})").starts_with("its \"pid\""));
  CHECK(mistake(R"({"pid": 1e99, "scope_id": "s", "expiration_time": 1, "signal": 9})").starts_with("its \"pid\""));
  CHECK(mistake(R"({"pid": 1, "scope_id": "s", "signal": 9})").starts_with("its \"expiration_time\""));
  CHECK(mistake(R"({"pid": 1, "scope_id": 3, "expiration_time": 1, "signal": 9})").starts_with("its \"scope_id\""));
  CHECK(mistake(R"({"pid": 1, "scope_id": "s", "expiration_time": 1, "signal": 99})").starts_with("its \"signal\""));
  CHECK(mistake(std::string(4096, '\xff')).size() < 400);
}

TEST_CASE("a timer that is not released runs out, once", "[timer]") {
  TimerTable table;
  CHECK_FALSE(table.next_expiry());
  table.apply(request(1, "step", t0 + 3s), t0);
  table.apply(request(2, "step", t0 + 2s), t0);
  CHECK(table.next_expiry() == t0 + 2s);
  CHECK(table.expire(t0 + 1s).empty());
  const auto expired = table.expire(t0 + 2s);
  REQUIRE(expired.size() == 1);
  CHECK(expired.front().pid == 2);
  CHECK(expired.front().granted == 2s);
  CHECK(table.expire(t0 + 2s).empty());
  CHECK(table.next_expiry() == t0 + 3s);
}

TEST_CASE("a released timer does not run out, and a new request moves it", "[timer]") {
  TimerTable table;
  table.apply(request(1, "step", t0 + 1s), t0);
  table.apply(request(1, "step", t0 + 5s), t0 + 500ms);
  table.apply(request(1, "load", t0 + 1s), t0);
  table.apply({1, "load", {}, 0}, t0);
  CHECK(table.expire(t0 + 4s).empty());
  CHECK(table.expire(t0 + 5s).size() == 1);
}

TEST_CASE("of a process's expired timers the first that asks for a signal counts, and all are forgotten", "[timer]") {
  TimerTable table;
  table.apply(request(1, "silent", t0 + 1s, 0), t0);
  table.apply(request(1, "late", t0 + 3s, SIGTERM), t0);
  table.apply(request(1, "early", t0 + 2s, SIGKILL), t0);
  table.apply(request(1, "future", t0 + 99s), t0);
  const auto expired = table.expire(t0 + 4s);
  REQUIRE(expired.size() == 1);
  CHECK(expired.front().scope == "early");
  CHECK_FALSE(table.next_expiry());
}

TEST_CASE("the timers of a process that has ended are forgotten, those of others not", "[timer]") {
  TimerTable table;
  for (const auto& [pid, scope] : {std::pair{1, "a"}, {1, "b"}, {2, ""}}) table.apply(request(pid, scope, t0), t0);
  table.forget(1);
  REQUIRE(table.expire(t0).size() == 1);
}

TEST_CASE("a worker cannot fill ddprun's memory with timers", "[timer]") {
  TimerTable table;
  for (std::size_t i = 0; i < TimerTable::kTimersMax; ++i) REQUIRE(table.apply(request(1, std::to_string(i), t0), t0));
  CHECK_FALSE(table.apply(request(1, "one more", t0), t0));
  CHECK(table.apply(request(1, "7", t0 + 1s), t0));
}
