#include "launcher/view/status_text.h"

#include "agent/status/status_json.h"
#include "launcher/running/job_view.h"
#include "launcher/view/table.h"
#include "launcher/view/units.h"
#include "tests/support/test.h"

namespace {

std::string shown(const StatusAnswer& answer) {
  return status_text({.id = "mnist", .live = to_json(answer), .has_record = false});
}

RankView rank(int number, Activity activity, Duration age) {
  return {.rank = number, .activity = activity, .step = 41, .age = age, .memory = 300 << 20, .pid = 100 + number};
}

}  // namespace

TEST_CASE("the status of a job, for people", "[status]") {
  StatusAnswer answer{.job = JobView{.phase = JobPhase::running, .since = 125s, .round = 3, .restarts_max = 3}};
  answer.job->counts = {.crashes = 1, .hangs = 1, .lost_nodes = 1};
  answer.job->nodes = {
      {.name = "n0", .place = NodePlace::active, .group_rank = 0, .workers = 2},
      {.name = "n1", .place = NodePlace::spare},
      {.name = "n2", .place = NodePlace::excluded, .why = "3 failures there in 1 h"},
  };
  answer.job->slow = {{1, Activity::compute, 160}};
  answer.job->account.spent[TimeKind::productive] = 93s;
  answer.job->account.spent[TimeKind::lost_work] = 5s;
  answer.job->account.spent[TimeKind::start] = 2s;
  RankView waits = rank(0, Activity::wait, 2s);
  waits.collective = "grads";
  waits.snapshot_step = 40;
  waits.snapshot_age = 12s;
  answer.nodes = {{.name = "n0", .step_us = 312'500, .ranks = {waits, rank(1, Activity::compute, 3100ms)}}};
  answer.nodes[0].ranks[1].processors = 1.504;
  answer.nodes[0].ranks[1].total_steps = 9000;
  answer.nodes[0].ranks[1].loss = 0.25;
  CHECK(shown(answer) ==
        "id:         mnist\n"
        "state:      stands still for 2.0 s: rank 0 waits for rank 1 (computing), round 3\n"
        "nodes:      1 active (n0), 1 spare (n1), 1 excluded (n2: 3 failures there in 1 h)\n"
        "activity:   train\n"
        "step:       41 of 9000, 0.4 %, 0 steps/s, loss 0.2500\n"
        "snapshot:   of step 40, 12 s ago\n"
        "restarts:   2 of 3 (1 crash, 1 hang); besides 1 lost node\n"
        "useful:     93 % of 1 min 40 s; 5 % lost work, 2 % start\n"
        "waits for:  rank 1 has computed for 3.1 s, after step 41; 1 rank waits\n"
        "slow:       rank 1 computes 1.6x slower than the median\n"
        "\n"
        "RANK  NODE  DOES          SINCE  STEP  CPU   MEMORY   TROUBLE\n"
        "0     n0    wait (grads)  2.0 s  41    -     300 MiB\n"
        "1     n0    compute       3.1 s  41    150%  300 MiB  holds up\n");
}

TEST_CASE("a condition with more to say than the state is shown in its place, and what is wrong with ranks",
          "[status]") {
  StatusAnswer answer{.job = JobView{.phase = JobPhase::running, .since = 125s, .round = 3, .restarts_max = 3}};
  answer.nodes = {{.name = "n0", .ranks = {rank(0, Activity::wait, 3100ms), rank(1, Activity::compute, 3100ms)}}};
  nlohmann::json live = to_json(answer);
  const auto text = [&] { return status_text({.id = "mnist", .live = live, .has_record = false}); };
  live["condition"] = {{"kind", "running"}, {"level", "good"}, {"seconds", nullptr}, {"why", ""}, {"text", "running"}};
  live["last_failure"] = nullptr;
  for (nlohmann::json& one : live["ranks"]) one["trouble"] = "";
  CHECK(has(text(), "\nstate:      running for 2 min 5 s, round 3\n"));
  CHECK_FALSE(has(text(), "TROUBLE"));
  CHECK_FALSE(has(text(), "failure:"));
  live["condition"]["text"] = "stands still for 3.1 s: rank 0 waits for rank 1 (stopped)";
  live["last_failure"] = {
      {"round", 2}, {"rank", 0}, {"node", "n0"}, {"text", "rank 0 was killed by SIGKILL"}, {"age_seconds", 65}};
  live["ranks"][1]["trouble"] = "stopped";
  CHECK(has(text(), "\nstate:      stands still for 3.1 s: rank 0 waits for rank 1 (stopped), round 3\n"));
  CHECK(has(text(), "\nfailure:    rank 0 was killed by SIGKILL, 1 min 5 s ago\n"));
  CHECK_THAT(text(), EndsWith("RANK  NODE  DOES     SINCE  STEP  CPU  MEMORY   TROUBLE\n"
                              "0     n0    wait     3.1 s  41    -    300 MiB\n"
                              "1     n0    compute  3.1 s  41    -    300 MiB  stopped\n"));
  live["condition"] = {{"kind", "ended"}, {"level", "over"}, {"text", "ended well after 3 h 12 min"}};
  CHECK(has(text(), "\nstate:      ended well after 3 h 12 min\n"));
}

TEST_CASE("of many ranks those in trouble are shown first", "[status]") {
  StatusAnswer answer{.job = JobView{}};
  answer.nodes = {{.name = "n0"}};
  for (int i = 0; i < 64; ++i) answer.nodes[0].ranks.push_back(rank(i, Activity::compute, 1ms));
  nlohmann::json live = to_json(answer);
  live["ranks"][50]["trouble"] = "slow 2.4x";
  CHECK(has(status_text({.id = "x", .live = live, .has_record = false}),
            "TROUBLE\n50    n0    compute  0.0 s  41    -    300 MiB  slow 2.4x\n0     n0 "));
}

TEST_CASE("of ranks that report nothing it is said how to see more", "[status]") {
  StatusAnswer answer{.job = JobView{.phase = JobPhase::running, .round = 1}};
  RankView silent = rank(0, Activity::start, 60s);
  silent.step.reset();
  silent.silent = true;
  answer.nodes = {{.name = "n0", .ranks = {silent}}};
  CHECK(has(shown(answer), "step:       not told; of a Python script ddprun --watch=see tells steps and hangs\n"));
  CHECK(has(shown(answer), "0     n0    runs"));
  answer.nodes[0].ranks[0].silent = false;
  CHECK_FALSE(has(shown(answer), "--watch"));
}

TEST_CASE("of ranks that report no steps the last line of output is shown, cut to the terminal", "[status]") {
  StatusAnswer answer{.job = JobView{.phase = JobPhase::running, .round = 1}};
  RankView silent = rank(0, Activity::start, 60s), other = rank(1, Activity::start, 60s);
  silent.step.reset();
  other.step.reset();
  answer.nodes = {{.name = "n0", .ranks = {silent, other}, .last_lines = {{kSeveralRanks, 42s, "epoch 3 loss 0.81"}}}};
  CHECK(has(shown(answer), "\nlast line:  42 s ago: epoch 3 loss 0.81\n"));
  CHECK_FALSE(has(shown(answer), "LAST LINE"));
  const JobFacts facts{.id = "mnist", .live = to_json(answer), .has_record = false};
  CHECK(has(status_text(facts, 29), "\nlast line:  42 s ago: epoch >\n"));

  answer.nodes[0].last_lines = {{1, 3s, "epoch 3\x1b[2J"}, {0, 65s, "saving"}};
  CHECK(has(shown(answer), "\nlast line:  3.0 s ago, rank 1: epoch 3\\x1b[2J\n"));
  CHECK(has(shown(answer), "MEMORY   LAST LINE\n"));
  CHECK(has(shown(answer), "300 MiB  1 min 5 s ago: saving\n"));
  const JobFacts with_lines{.id = "mnist", .live = to_json(answer), .has_record = false};
  CHECK(has(status_text(with_lines, 68), "300 MiB  1 min 5 s ago: sa>\n"));

  answer.nodes.push_back({.name = "n1", .ranks = {rank(2, Activity::start, 60s)}, .last_lines = {{-1, 1s, "epoch 4"}}});
  answer.nodes[1].ranks[0].step.reset();
  CHECK(has(shown(answer), "\nlast line:  1.0 s ago, on n1: epoch 4\n"));
  CHECK(has(shown(answer), "300 MiB  -\n"));

  answer.nodes[0].ranks[0].step = 41;  // which tells more
  CHECK_FALSE(has(shown(answer), "epoch"));
  CHECK(to_json(answer)["last_output"]["line"] == "epoch 4");
  CHECK(to_json(answer)["last_output"]["node"] == "n1");
  CHECK(to_json(answer)["last_output"]["rank"].is_null());
  CHECK(to_json(answer)["ranks"][0]["last_output"]["age_seconds"] == 65);
  CHECK(to_json(answer)["ranks"][2]["last_output"].is_null());
}

TEST_CASE("a node that cannot reach the coordinator shows what it knows itself", "[status]") {
  StatusAnswer answer{.problem = "the coordinator is out of reach now"};
  answer.nodes = {{.name = "n0", .ranks = {rank(0, Activity::save, 100ms)}}};
  CHECK_THAT(shown(answer), StartsWith("id:         mnist\n"
                                       "state:      the coordinator is out of reach now\n"
                                       "activity:   save\n"));
}

TEST_CASE("a long list of ranks is cut, and says how many there are", "[status]") {
  StatusAnswer answer{.job = JobView{}};
  answer.nodes = {{.name = "n0"}};
  for (int i = 0; i < 256; ++i) answer.nodes[0].ranks.push_back(rank(i, Activity::compute, 1ms));
  CHECK_THAT(shown(answer), EndsWith("... and 224 more: ddprun status --json\n"));
}

TEST_CASE("times are shown in the unit that a reader needs", "[status]") {
  CHECK(duration_text(0.04) == "0.0 s");
  CHECK(duration_text(59.4) == "59 s");
  CHECK(duration_text(3599) == "59 min 59 s");
  CHECK(duration_text(7260) == "2 h 1 min");
  CHECK(duration_text(90000) == "1 d 1 h");
}

TEST_CASE("columns of a table are as wide as what is shown of their longest cell", "[status]") {
  CHECK(table_text({{"A", "B"}, {"a\x1b", "b"}}) == "A      B\na\\x1b  b\n");
  CHECK(table_text({}).empty());
}
