#include "agent/status/job_summary.h"

#include "agent/status/act_request.h"
#include "agent/status/status_json.h"
#include "tests/support/test.h"

namespace {

RankView rank(int number, Activity activity, Duration age = 20ms, std::optional<std::uint64_t> step = 41) {
  return {.rank = number, .activity = activity, .step = step, .age = age, .pid = 100 + number};
}

NodeReport node(int group_rank, std::vector<RankView> ranks) {
  return {.round = 2, .group_rank = group_rank, .name = "n" + std::to_string(group_rank), .ranks = std::move(ranks)};
}

StatusAnswer answer_of(std::vector<NodeReport> nodes) {
  return {.job = JobView{.phase = JobPhase::running}, .nodes = nodes};
}

std::string awaited(const std::vector<NodeReport>& nodes) { return summary_of(answer_of(nodes)).awaited.text; }

}  // namespace

TEST_CASE("a job has done the steps that all its ranks have done, at the pace of its first node", "[status]") {
  NodeReport first = node(0, {rank(0, Activity::compute, 1ms, 42), rank(1, Activity::wait, 1ms, 42)});
  NodeReport second = node(1, {rank(2, Activity::compute, 1ms, 41), rank(3, Activity::start, 1ms, {})});
  second.step_us = 250'000;
  const JobSummary summary = summary_of(answer_of({first, second}));
  CHECK(summary.step == 41u);
  CHECK(summary.steps_per_second == 4.0);
  CHECK(summary.activity == "train");
  CHECK_FALSE(summary.snapshot_step);
  const JobSummary nothing = summary_of({});
  CHECK_FALSE(nothing.step);
  CHECK_FALSE(nothing.steps_per_second);
  CHECK(nothing.activity.empty());
}

TEST_CASE("time is left as long as all ranks get on in a round", "[status]") {
  RankView first = rank(0, Activity::compute), second = rank(1, Activity::wait);
  first.total_steps = 100;
  second.step = 42;
  NodeReport of_two = node(0, {first, second});
  of_two.step_us = 2'000'000;
  StatusAnswer answer = answer_of({of_two});
  const auto told = [&] {
    const auto outlook = summary_of(answer).outlook;
    return outlook ? in_words(*outlook) : "nothing";
  };
  RankView& rank = answer.nodes[0].ranks[1];
  CHECK(told() == "41.0 %, 2 min left");
  rank.age = 19s;  // less than ten steps take
  CHECK(told() == "41.0 %, 2 min left");
  rank.age = 21s;
  CHECK(told() == "41.0 %");
  rank.activity = Activity::ended;
  CHECK(told() == "41.0 %, 2 min left");
  rank = second;
  rank.stopped = true;
  CHECK(told() == "41.0 %");
  rank = second;
  answer.nodes[0].spent = RoundSpent{.reports = true, .train = 40s, .evaluate = 15s, .save = 5s};
  CHECK(told() == "41.0 %, 3 min left");
  answer.job->phase = JobPhase::starting;
  CHECK(told() == "41.0 %");
  answer.job.reset();
  CHECK(told() == "41.0 %");
  answer.nodes[0].step_us = 0;
  CHECK(told() == "41.0 %");
  answer.nodes[0].ranks[0].total_steps.reset();
  CHECK(told() == "nothing");
}

TEST_CASE("ranks that report nothing run or sleep, and what of their time is useful is not known", "[status]") {
  RankView runs = rank(0, Activity::start, 60s, {}), sleeps = runs;
  runs.silent = sleeps.silent = sleeps.still = true;
  runs.processors = 3.128;
  const auto told = [](std::vector<RankView> ranks) { return to_json(answer_of({node(0, std::move(ranks))})); };
  const auto live = told({runs, sleeps, sleeps});
  CHECK(live["activity"] == "sleeps");
  CHECK(live["ranks"][0]["activity"] == "runs");
  CHECK(live["ranks"][0]["processors"] == 3.13);
  CHECK(live["ranks"][1]["processors"].is_null());
  CHECK(live["time"]["useful_share"].is_null());
  CHECK(told({runs, rank(1, Activity::compute)})["time"]["useful_share"].is_number());
}

TEST_CASE("the newest snapshot counts, and the last rank that has it", "[status]") {
  RankView older = rank(0, Activity::compute), newer = rank(1, Activity::compute), later = newer;
  older.snapshot_step = 30;
  older.snapshot_age = 1s;
  newer.snapshot_step = later.snapshot_step = 40;
  older.snapshot_bytes = 7;
  newer.snapshot_bytes = later.snapshot_bytes = 50;
  newer.snapshot_age = 9s;
  later.snapshot_age = 8s;
  const JobSummary summary = summary_of(answer_of({node(0, {older, newer, later})}));
  CHECK(summary.snapshot_step == 40u);
  CHECK(summary.snapshot_age == Duration(8s));
  CHECK(summary.snapshot_bytes == 100u);
  later.snapshot_step = 41;
  later.snapshot_bytes = 0;
  CHECK_FALSE(summary_of(answer_of({node(0, {older, newer, later})})).snapshot_bytes);
}

TEST_CASE("a rank is waited for if others wait and it has done nothing new for a second", "[status]") {
  const RankView waits = rank(0, Activity::wait), computes = rank(1, Activity::compute, 3100ms);
  CHECK(awaited({node(0, {waits, computes})}) == "rank 1 has computed for 3.1 s, after step 41; 1 rank waits");
  CHECK(awaited({node(0, {waits}), node(1, {computes})}) ==
        "rank 1 on n1 has computed for 3.1 s, after step 41; 1 rank waits");
  CHECK(awaited({node(0, {waits, rank(1, Activity::compute, 500ms)})}).empty());
  CHECK(awaited({node(0, {computes})}).empty());  // nobody waits
  CHECK(awaited({node(0, {waits, rank(1, Activity::ended, 9s)})}).empty());
  std::vector<RankView> many{waits};
  for (int i = 1; i < 8; ++i) many.push_back(rank(i, Activity::load, 2s));
  CHECK_THAT(awaited({node(0, many)}), EndsWith(" and 3 ranks more; 1 rank waits"));
}

TEST_CASE("while no round runs, nodes are waited for", "[status]") {
  StatusAnswer answer{.job = JobView{.phase = JobPhase::waiting, .awaited = {"n2 (10.0.0.2)", "node 3"}}};
  CHECK(summary_of(answer).awaited.text == "n2 (10.0.0.2), node 3");
  CHECK(summary_of(answer).awaited.nodes.size() == 2);
}

TEST_CASE("a rank that a signal has stopped is waited for, whatever it did", "[status]") {
  RankView stopped = rank(1, Activity::wait, 10ms);
  stopped.stopped = true;
  CHECK_THAT(awaited({node(0, {rank(0, Activity::wait), stopped})}),
             StartsWith("rank 1 ") && EndsWith("; 1 rank waits"));
  CHECK(awaited({node(0, {rank(0, Activity::load), stopped})}).empty());  // it waits for nobody itself
}

TEST_CASE("the job's time is what is closed, and what the first node has measured of the round that runs", "[status]") {
  StatusAnswer answer = answer_of({node(0, {}), node(1, {})});
  answer.job->account.spent[TimeKind::waiting] = 10s;
  CHECK(summary_of(answer).account->total() == 10s);
  answer.job->round_age = 30s;
  answer.nodes[1].spent = RoundSpent{.reports = true, .start = 5s, .train = 25s, .doing = TimeKind::productive};
  const TimeAccount account = *summary_of(answer).account;
  CHECK(account.total() == 40s);
  CHECK(account[TimeKind::productive] == 25s);
  CHECK(account[TimeKind::start] == 5s);
  CHECK(to_json(answer)["time"]["useful_share"] == 0.625);
  CHECK(to_json(answer)["time"]["waiting"] == 10.0);
  CHECK_FALSE(summary_of({}).account);
}

TEST_CASE("the status as JSON has the same fields whoever answers", "[status]") {
  StatusAnswer answer = answer_of({node(0, {rank(0, Activity::wait, 1234567us)})});
  answer.run_id = "mnist";
  answer.job->round = 2;
  answer.job->coordinator = 7;
  answer.job->counts = {.crashes = 2, .lost_nodes = 1};
  answer.job->nodes = {{.id = 7, .name = "n0", .host = "10.0.0.1", .group_rank = 0, .first_rank = 4, .workers = 2},
                       {.id = 8, .name = "n1", .place = NodePlace::excluded, .why = "3 failures there in 1 h"}};
  answer.job->slow = {{5, Activity::load, 160}};
  const nlohmann::json json = to_json(answer);
  CHECK(json["run_id"] == "mnist");
  CHECK(json["state"] == "running");
  CHECK(json["coordinator"] == "n0");
  CHECK(json["restarts"]["charged"] == 2);
  CHECK(json["restarts"]["by_cause"]["lost_node"] == 1);
  CHECK(json["nodes"][0]["ranks"] == nlohmann::json{4, 5});
  CHECK(json["nodes"][1]["state"] == "excluded");
  CHECK(json["nodes"][1]["group_rank"].is_null());
  CHECK(json["ranks"][0]["activity"] == "wait");
  CHECK(json["ranks"][0]["age_seconds"] == 1.235);
  CHECK(json["slow_ranks"][0]["ratio"] == 1.6);
  CHECK(json["snapshot_step"].is_null());
  CHECK(json["progress"].is_null());
  answer.nodes[0].step_us = 1'500'000;
  answer.nodes[0].ranks[0].total_steps = 64;
  CHECK(to_json(answer)["progress"] ==
        nlohmann::json{{"done_share", 0.640625}, {"percent", 64}, {"seconds_left", 35}, {"text", "64.0 %, 35 s left"}});

  answer.job.reset();
  answer.problem = "the coordinator is out of reach now";
  const nlohmann::json alone = to_json(answer);
  CHECK(alone["state"] == "unknown");
  CHECK(alone["problem"] == "the coordinator is out of reach now");
  CHECK(alone["ranks"].size() == 1);
}

TEST_CASE("an act arrives as it was asked for", "[ctl]") {
  for (const Act& act : {Act{ActKind::restart, "", 0, 0, "alice on login1"}, Act{ActKind::drain, "n\"3", 0, 0, "bob"},
                         Act{ActKind::resize, "", 2, 4, ""}, Act{ActKind::remove_workers, "n3", 0, 0, "bob", {}, 2}}) {
    const auto parsed = parse_act(act_line(act));
    REQUIRE(std::holds_alternative<Act>(parsed));
    CHECK(std::get<Act>(parsed) == act);
  }
  const auto escaped = parse_act(act_line({ActKind::drain, "n\x1b", 0, 0, "b\nob"}));
  CHECK(std::get<Act>(escaped).node == "n\\x1b");
  CHECK(std::get<Act>(escaped).by == "b\\x0aob");
  CHECK(parse_act_result(to_line({true, "done"})).done);
  CHECK(parse_act_result(to_line({false, "why"})).text == "why");
  CHECK_FALSE(parse_act_result("").done);
}

TEST_CASE("what is no act is refused", "[ctl]") {
  for (const std::string& line :
       {std::string(), std::string("act"), std::string("act {"), std::string("act []"), std::string("act {\"act\":7}"),
        std::string("act {\"act\":\"burn\"}"), std::string("act {\"act\":\"drain\"}"),
        std::string("act {\"act\":\"resize\",\"nodes_min\":3,\"nodes_max\":2}"),
        std::string("act {\"act\":\"resize\",\"nodes_min\":-1,\"nodes_max\":2}"),
        std::string("act {\"act\":\"resize\",\"nodes_min\":1,\"nodes_max\":99999999999}"),
        std::string("act {\"act\":\"add-workers\"}"), std::string("act {\"act\":\"add-workers\",\"workers\":70000}"),
        "act {\"act\":\"stop\",\"by\":\"" + std::string(300, 'x') + "\"}"}) {
    CAPTURE(line);
    CHECK(std::holds_alternative<std::string>(parse_act(line)));
  }
}
