#include "agent/status/job_history.h"

#include "agent/status/page_data.h"
#include "agent/status/status_json.h"
#include "tests/support/test.h"

using nlohmann::json;

namespace {

json status_of(int round, double step, int crashes = 0) {
  return {{"state", "running"},
          {"round", round},
          {"step", step},
          {"steps_per_second", 2.5},
          {"loss", 0.5},
          {"restarts", {{"by_cause", {{"crash", crashes}, {"hang", 0}}}}},
          {"time", {{"useful_share", 0.9}}}};
}

}  // namespace

TEST_CASE("a history has what a status says, and the newest sample always", "[page]") {
  JobHistory history;
  history.note(status_of(1, 7), 1000ms);
  CHECK(history.samples().back() == HistorySample{1000ms, 7, 2.5, 0.5, 0.9});
  history.note({{"state", "unknown"}, {"step", nullptr}}, 2000ms);
  CHECK(history.samples().back() == HistorySample{.at = 2000ms});
  history.note("no object", 3000ms);
  CHECK(history.samples().size() == 2);
}

TEST_CASE("samples are thinned evenly, however long a job runs", "[page][waits]") {
  JobHistory history;
  const int seconds = 100'000;
  for (int i = 0; i <= seconds; ++i) history.note(status_of(1, i), i * 1000ms);
  const auto& samples = history.samples();
  CHECK(samples.size() <= JobHistory::kSamplesMax);
  CHECK(samples.size() >= JobHistory::kSamplesMax / 4);
  CHECK(samples.front().at == 0ms);
  CHECK(samples.back().step == seconds);
  UnixTime widest{}, narrowest = samples[1].at;
  for (std::size_t i = 1; i + 1 < samples.size(); ++i) {
    widest = std::max(widest, samples[i].at - samples[i - 1].at);
    narrowest = std::min(narrowest, samples[i].at - samples[i - 1].at);
  }
  CHECK(widest <= 3 * narrowest);
}

TEST_CASE("rounds come from the agent's events, or from the status of a round that it has not seen", "[page]") {
  JobHistory history;
  history.round_formed(1, 4, 1s);
  history.note(status_of(1, 3), 2s);
  history.round_ended(1, {.cause = "hang", .failed = true, .story = "rank 3 hung", .rank = 3, .node = "n1"}, 3s);
  history.round_ended(1, {.cause = "crash"}, 4s);  // said twice
  history.round_formed(2, 4, 5s);
  history.note(status_of(4, 3, /*crashes=*/1), 6s);
  const auto& rounds = history.rounds();
  REQUIRE(rounds.size() == 3);
  CHECK(rounds[0] == HistoryRounds{1, 1, 1s, 3s, {{"hang", 1}}, true, "rank 3 hung", 3, "n1"});
  CHECK(rounds[1] == HistoryRounds{2, 2, 5s, 6s, {{"crash", 1}}});
  CHECK(rounds[2] == HistoryRounds{4, 4, 6s, {}, {}});
  REQUIRE(history.last_failed());
  CHECK(history.last_failed()->first == 1);
  const auto& marks = history.marks();
  REQUIRE(marks.size() == 3);
  CHECK(marks[0] == HistoryMark{3s, MarkKind::failure, "rank 3 hung"});
  CHECK(marks[1] == HistoryMark{5s, MarkKind::restart, "round 2"});
  CHECK(history.changes() == 8);
}

TEST_CASE("between rounds the pace is 0, and not that of the last steps", "[page]") {
  JobHistory history;
  history.note({{"state", "waiting"}, {"steps_per_second", nullptr}}, 1s);
  CHECK_FALSE(history.samples().back().steps_per_second);  // perhaps it never tells any
  history.note(status_of(1, 7), 2s);
  history.note({{"state", "waiting"}, {"steps_per_second", nullptr}}, 3s);
  CHECK(history.samples().back().steps_per_second == 0.0);
}

TEST_CASE("a round's time is what has passed until the next one, and work that is done again was its own", "[page]") {
  JobHistory history;
  const auto at = [&](int round, double productive, double start, double lost, UnixTime now) {
    json status = status_of(round, 1);
    status["time"] = {{"total", 0}, {"productive", productive}, {"start", start}, {"lost_work", lost}};
    history.note(status, now);
  };
  at(1, 100, 5, 0, 1s);  // of earlier starts of the job
  at(1, 130, 7, 0, 33s);
  history.round_ended(1, {.cause = "crash", .failed = true, .story = "rank 1 was killed by SIGKILL", .rank = 1}, 34s);
  history.round_formed(2, 4, 35s);
  at(2, 140, 9, 0, 37s);   // 10 s of these before the round
  at(2, 116, 9, 25, 38s);  // its first step shows that 25 s of work are done again
  at(2, 119, 9, 25, 41s);
  const json rounds = to_json(history.rounds());
  CHECK(rounds[0]["spent"] == json{{"productive", 15.0}, {"start", 2.0}, {"lost_work", 25.0}});
  CHECK(rounds[0]["story"] == "rank 1 was killed by SIGKILL");
  CHECK(rounds[1]["spent"] == json{{"productive", 4.0}, {"start", 2.0}});
}

TEST_CASE("marks say what happened and when, and of many snapshots some are left", "[page]") {
  JobHistory history;
  json status = status_of(1, 1);
  status["snapshot_step"] = 40;
  status["world_size"] = 4;
  history.note(status, 1s);  // that snapshot may be an old one
  status["condition"] = {{"kind", "stands still"}, {"why", "rank 0 waits for rank 1 (stopped)"}};
  history.note(status, 2s);
  history.note(status, 3s);
  history.straggler_found("rank 1 computes 2.4x slower than the median", 4s);
  history.round_formed(2, 6, 5s);
  CHECK(to_json(history.marks()) == json::parse(R"x([[2000, "still", "rank 0 waits for rank 1 (stopped)"],
                        [4000, "straggler", "rank 1 computes 2.4x slower than the median"],
                        [5000, "resize", "world size 4 to 6"]])x"));
  for (int step = 41; step < 1000; ++step) {
    status["snapshot_step"] = step;
    history.note(status, step * 1s);
  }
  CHECK(history.marks().size() <= JobHistory::kMarksMax);
  CHECK(history.marks()[2].text == "world size 4 to 6");
  CHECK(history.marks().back().text == "step 999");
  for (int round = 3; round < 300; ++round) history.round_formed(round, 6, round * 1000s);
  CHECK(history.marks().size() <= JobHistory::kMarksMax);
  CHECK(history.marks().back().text == "round 299");
}

TEST_CASE("rounds of long ago are merged, and none of their causes is lost", "[page]") {
  JobHistory history;
  const int count = 3000;
  for (int i = 1; i <= count; ++i) {
    history.round_formed(i, 4, i * 10s);
    history.round_ended(i, {.cause = i % 3 == 0 ? "hang" : "crash"}, i * 10s + 9s);
  }
  const auto& rounds = history.rounds();
  CHECK(rounds.size() <= JobHistory::kRoundsMax);
  std::map<std::string, int> causes;
  int next = 1;
  for (const HistoryRounds& one : rounds) {
    CHECK(one.first == next);
    next = one.last + 1;
    for (const auto& [cause, times] : one.causes) causes[cause] += times;
  }
  CHECK(next == count + 1);
  CHECK(causes == std::map<std::string, int>{{"crash", 2000}, {"hang", 1000}});
  CHECK(rounds.back().first == count);
}

TEST_CASE("an event's text is one data line for each of its lines", "[page]") {
  CHECK(server_sent("a", "one") == "event: a\ndata: one\n\n");
  CHECK(server_sent("a", "one\ntwo\r\nthree\rfour") == "event: a\ndata: one\ndata: two\ndata: three\ndata: four\n\n");
  CHECK(server_sent("a", "") == "event: a\ndata: \n\n");
}

TEST_CASE("the first event has the history, a later one what is new", "[page]") {
  JobHistory history;
  history.round_formed(1, 4, 1s);
  history.note(status_of(1, 1), 1s);
  history.note(status_of(1, 2), 2s);
  const json status = page_status(status_of(1, 2));
  const auto data = [](const std::string& event) { return json::parse(event.substr(event.find("data: ") + 6)); };
  const json whole = data(whole_event(status, history, 2s));
  CHECK(whole["samples"].size() == 2);
  CHECK(whole["rounds"][0]["end"].is_null());
  CHECK(whole["now"] == 2000);
  const json change = data(change_event(status, history, 2s, /*rounds=*/false));
  CHECK(change["sample"] == json::array({2000, 2.0, 2.5, 0.5, 0.9}));
  CHECK_FALSE(change.contains("rounds"));
  CHECK(whole["marks"].empty());
  CHECK(data(change_event(status, history, 2s, /*rounds=*/true)).contains("rounds"));
}

TEST_CASE("of a large job the page gets few ranks, those that matter among them, and the slowest of all", "[page]") {
  json status = status_of(1, 1);
  status["ranks"] = json::array();
  for (int i = 0; i < 1024; ++i)
    status["ranks"].push_back({{"rank", i},
                               {"node", "n" + std::to_string(i / 8)},
                               {"group_rank", i / 8},
                               {"trouble", i == 700   ? "stopped"
                                           : i == 900 ? "slow 2.4x"
                                                      : ""},
                               {"activity", i == 9 ? "wait" : "compute"},
                               {"load_seconds", i == 999 ? 9.0 : 1.0}});
  status["waits_for"] = {{"ranks", {800}}, {"text", "rank 800"}};
  status["slow_ranks"] = {{{"rank", 900}}};
  const json out = page_status(status);
  CHECK(out["ranks"].size() == kPageRanksMax);
  CHECK(out["ranks_total"] == 1024);
  std::set<int> listed;
  for (const json& rank : out["ranks"]) listed.insert(rank["rank"].get<int>());
  for (const int rank : {0, 60, 700, 800, 900}) CHECK(listed.contains(rank));
  REQUIRE(out["slowest"].size() == 1);
  CHECK(out["slowest"][0]["rank"] == 999);
  CHECK(out["slowest"][0]["median_seconds"] == 1.0);
  REQUIRE(out["strip"].size() == 128);
  CHECK(out["strip"][1] == json{{"node", "n1"}, {"group_rank", 1}, {"first", 8}, {"codes", ".w......"}});
  CHECK(out["strip"][87]["codes"] == "....x...");
  CHECK(out["strip"][112]["codes"] == "....s...");
}

TEST_CASE("a job in which only ages grow has nothing new", "[page]") {
  json before = status_of(1, 1);
  const json printed{{"line", "epoch 1"}, {"age_seconds", 1.0}};
  before["ranks"] = {{{"rank", 0}, {"age_seconds", 1.0}, {"step", 1}, {"last_output", printed}}};
  before["last_output"] = printed;
  before["progress"] = {{"text", "50 %, 1 min left"}, {"seconds_left", 31}};
  json after = before;
  after["run_seconds"] = 9;
  after["progress"]["seconds_left"] = 32;
  after["ranks"][0]["age_seconds"] = 2.0;
  after["last_output"]["age_seconds"] = after["ranks"][0]["last_output"]["age_seconds"] = 2.0;
  CHECK(page_key(before) == page_key(after));
  after["ranks"][0]["step"] = 2;
  CHECK(page_key(before) != page_key(after));
}

TEST_CASE("what a page of 1,024 ranks costs in a second, and how much it is told", "[.measure]") {
  StatusAnswer answer{.job = JobView{.phase = JobPhase::running, .round = 1, .world_size = 1024}};
  for (int node = 0; node < 128; ++node) {
    NodeReport report{.round = 1, .group_rank = node, .name = "node" + std::to_string(node), .step_us = 90'000};
    for (int i = 0; i < 8; ++i)
      report.ranks.push_back({.rank = 8 * node + i,
                              .activity = i == 0 ? Activity::compute : Activity::wait,
                              .collective = "all_reduce",
                              .step = 4711,
                              .age = 20ms,
                              .loss = 0.25,
                              .total_steps = 9000,
                              .memory = 4'000'000'000,
                              .processors = 1.02,
                              .load = 1s,
                              .compute = 100s,
                              .wait = 20s,
                              .pid = 4711});
    answer.nodes.push_back(std::move(report));
  }
  JobHistory history;
  constexpr int kTimes = 10;
  std::size_t bytes = 0;
  const TimePoint begin = Clock::now();
  for (int i = 0; i < kTimes; ++i) {
    const json status = to_json(answer);
    history.note(status, i * 1s);
    const json shown = page_status(status);
    bytes += page_key(shown).empty() ? 0 : change_event(shown, history, i * 1s, i % 5 == 0).size();
  }
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / kTimes;
  std::printf("the page of 1,024 ranks: %.2f ms and %zu bytes a second\n", ms, bytes / kTimes);
}

TEST_CASE("a standstill that all ranks show and our own do not is marked once", "[page]") {
  JobHistory history;
  json all = status_of(1, 1), own = status_of(1, 1);
  all["condition"] = {{"kind", "stands still"}, {"why", "rank 0 waits for rank 3 (stopped)"}};
  own["condition"] = {{"kind", "running"}, {"why", ""}};
  for (int i = 1; i < 40; ++i) i % 5 == 0 ? history.note(all, i * 2s) : history.note_own(own, i * 2s);
  CHECK(history.marks().size() == 1);
  history.note(own, 100s);  // it goes on
  history.note(all, 102s);
  CHECK(history.marks().size() == 2);
  own["condition"]["kind"] = "stands still";  // our own show the same standstill
  history.note_own(own, 104s);
  CHECK(history.marks().size() == 2);
}
