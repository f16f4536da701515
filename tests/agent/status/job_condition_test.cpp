#include "agent/status/job_condition.h"

#include "agent/status/job_summary.h"
#include "tests/support/test.h"

namespace {

RankView a_rank(int number, Activity activity, Duration age = 20ms) {
  return {.rank = number, .activity = activity, .step = 41, .age = age, .pid = 100 + number};
}

NodeReport a_node(int group_rank, std::vector<RankView> ranks) {
  return {.round = 2,
          .group_rank = group_rank,
          .name = "n" + std::to_string(group_rank),
          .step_us = 100'000,
          .ranks = std::move(ranks)};
}

JobView running_job() { return {.phase = JobPhase::running}; }

std::string condition_in_words(const std::vector<NodeReport>& nodes, const JobView& job = running_job()) {
  return in_words(condition_of(StatusAnswer{.job = job, .nodes = nodes}));
}

}  // namespace

TEST_CASE("a job is running, starting, saving, evaluating, ending", "[status]") {
  CHECK(condition_in_words({a_node(0, {a_rank(0, Activity::compute), a_rank(1, Activity::wait)})}) == "running");
  CHECK(condition_in_words({}) == "running");  // no node has answered
  CHECK(condition_in_words({a_node(0, {a_rank(0, Activity::save, 3200ms), a_rank(1, Activity::wait, 9s)})}) ==
        "saving for 3.2 s");
  CHECK(condition_in_words({a_node(0, {a_rank(0, Activity::save, 3s), a_rank(1, Activity::compute)})}) == "running");
  CHECK(condition_in_words({a_node(0, {a_rank(0, Activity::evaluate, 12s), a_rank(1, Activity::evaluate, 11s)})}) ==
        "evaluating for 12 s");
  NodeReport starts = a_node(0, {a_rank(0, Activity::start, 70s), a_rank(1, Activity::start, 71s)});
  CHECK(condition_in_words({starts}) == "running");  // it reports nothing: perhaps it never will
  starts.spent = RoundSpent{.reports = true};
  CHECK(condition_in_words({starts}) == "starting for 1 min 11 s");
  CHECK(condition_in_words({a_node(0, {a_rank(0, Activity::end), a_rank(1, Activity::ended, 9s)})}) == "ending");
  CHECK(condition_in_words({a_node(0, {a_rank(0, Activity::ended), a_rank(1, Activity::ended, 9s)})}) == "ending");
}

TEST_CASE("without a round the job waits, and it says for whom", "[status]") {
  CHECK(condition_in_words({}, {.phase = JobPhase::waiting, .awaited = {"n2", "n3"}}) == "waiting: for n2, n3");
  CHECK(condition_in_words({}, {.phase = JobPhase::waiting, .backoff = 3s}) ==
        "waiting: the next round begins in 3.0 s");
  CHECK(condition_in_words({}, {.phase = JobPhase::starting}) == "starting");
  CHECK(condition_in_words({}, {.phase = JobPhase::over}) == "ended");
  CHECK(in_words(condition_of(StatusAnswer{.problem = "the coordinator is out of reach now"})) ==
        "unknown: the coordinator is out of reach now");
}

TEST_CASE("a rank that a signal has stopped is named at once, and who waits for it", "[status]") {
  RankView stopped = a_rank(2, Activity::compute, 600ms);
  stopped.stopped = true;
  const RankView first = a_rank(0, Activity::wait), second = a_rank(1, Activity::wait),
                 third = a_rank(3, Activity::wait);
  CHECK(condition_in_words({a_node(0, {first, second, stopped, third})}) ==
        "stands still for 0.6 s: ranks 0, 1 and 3 wait for rank 2 (stopped)");
  CHECK(condition_in_words({a_node(0, {first, second}), a_node(1, {stopped, third})}) ==
        "stands still for 0.6 s: ranks 0, 1 and 3 wait for rank 2 on n1 (stopped)");
  CHECK(condition_in_words({a_node(0, {stopped})}) == "stands still for 0.6 s: rank 2 is stopped");
  CHECK(condition_in_words({a_node(0, std::vector<RankView>(253, first)), a_node(1, {stopped})}) ==
        "stands still for 0.6 s: 253 ranks wait for rank 2 on n1 (stopped)");
  stopped.activity = Activity::save;
  CHECK(condition_in_words({a_node(0, {first, stopped})}) ==
        "stands still for 0.6 s: rank 0 waits for rank 2 (stopped)");
  stopped.silent = true;
  stopped.step.reset();
  CHECK(condition_in_words({a_node(0, {stopped})}) == "stands still for 0.6 s: rank 2 is stopped");
}

TEST_CASE("a job stands still once a step is overdue, whoever holds it up", "[status]") {
  const RankView waits = a_rank(0, Activity::wait, 900ms);
  RankView other = a_rank(1, Activity::compute, 800ms);
  CHECK(condition_in_words({a_node(0, {waits, other})}) ==
        "stands still for 0.8 s: rank 0 waits for rank 1 (computing)");
  other.held = "nfs_wait";
  CHECK(condition_in_words({a_node(0, {waits, other})}) ==
        "stands still for 0.8 s: rank 0 waits for rank 1 (held by the kernel in nfs_wait)");
  other = a_rank(1, Activity::wait, 5s);
  other.collective = "grads";
  CHECK(condition_in_words({a_node(0, {other, other})}) == "stands still for 5.0 s: all ranks wait in grads");
  other.activity = Activity::load;
  CHECK(condition_in_words({a_node(0, {other, other})}) == "stands still for 5.0 s: all ranks are loading data");
  NodeReport slow = a_node(0, {other, other});
  slow.step_us = 2'000'000;
  CHECK(condition_in_words({slow}) == "running");  // three steps take longer
  slow.step_us = 0;                                // not known yet
  CHECK(condition_in_words({slow}) == "running");
  slow.ranks[1].age = 20ms;
  slow.step_us = 1000;
  CHECK(condition_in_words({slow}) == "running");  // one of them gets on
  slow.ranks[1].activity = Activity::start;
  slow.ranks[1].age = 1h;
  CHECK(condition_in_words({slow}) == "running");  // it begins
  RankView silent = a_rank(0, Activity::start, 1h);
  silent.silent = true;
  silent.step.reset();
  CHECK(condition_in_words({a_node(0, {silent})}) == "running");  // a program that reports nothing
}

TEST_CASE("a save of one rank while another evaluates is a save, and what differs is told", "[status]") {
  CHECK(condition_in_words({a_node(0, {a_rank(0, Activity::save, 3s), a_rank(1, Activity::evaluate, 2s),
                                       a_rank(2, Activity::wait, 9s)})}) == "saving for 3.0 s");
  CHECK(condition_in_words({a_node(
            0, {a_rank(0, Activity::load, 3s), a_rank(1, Activity::compute, 3s), a_rank(2, Activity::wait, 3s)})}) ==
        "stands still for 3.0 s: rank 2 waits for ranks 0 and 1 (loading data, computing)");
}

TEST_CASE("a pause that somebody has ordered is no standstill, and no hang", "[status]") {
  RankView first = a_rank(0, Activity::compute, 5s), second = a_rank(1, Activity::wait, 5s);
  first.paused = first.stopped = true;
  CHECK(condition_in_words({a_node(0, {first, second})}) == "paused: rank 0");
  second.paused = true;
  NodeReport node = a_node(0, {first, second});
  CHECK(condition_in_words({node}) == "paused");
  node.spent = RoundSpent{.reports = true, .train = 20s, .doing = TimeKind::productive, .since_progress = 5s};
  StatusAnswer answer{.job = running_job(), .nodes = {node}};
  answer.job->round_age = 20s;
  CHECK((*summary_of(answer).account)[TimeKind::hang] == Duration(0s));
  CHECK(level_of(Condition::paused) == Level::busy);
}

TEST_CASE("who sees some of the ranks takes their wait for no standstill, unless the others do not answer",
          "[status]") {
  JobView job = running_job();
  job.world_size = 4;
  const NodeReport here = a_node(0, {a_rank(0, Activity::wait, 40s), a_rank(1, Activity::wait, 40s)});
  const auto told = [&](const NodeReport& node, std::vector<std::string> silent = {}) {
    return in_words(condition_of(StatusAnswer{.job = job, .nodes = {node}, .silent = std::move(silent)}));
  };
  CHECK(told(here) == "running");  // rank 3 may be saving
  CHECK(told(here, {"n1"}) == "stands still for 40 s: ranks 0 and 1 on n0 wait in a collective; n1 has not answered");
  NodeReport with_stopped = here;
  with_stopped.ranks[1].stopped = true;
  CHECK(told(with_stopped) == "stands still for 40 s: rank 0 waits for rank 1 (stopped)");
  StatusAnswer answer{.job = job, .nodes = {here}};
  answer.nodes[0].spent = RoundSpent{.reports = true, .train = 60s, .since_progress = 40s};
  answer.job->round_age = 60s;
  CHECK((*summary_of(answer).account)[TimeKind::hang] == Duration(0s));
  CHECK(summary_of(answer).steps_per_second == 0.0);  // this node does none
}

TEST_CASE("of stragglers the worst is named", "[status]") {
  JobView job = running_job();
  job.slow = {{.rank = 1, .phase = Activity::load, .percent = 160}, {.rank = 3, .percent = 240}};
  const std::vector<NodeReport> nodes{a_node(0, {a_rank(0, Activity::compute), a_rank(3, Activity::compute)})};
  CHECK(condition_in_words(nodes, job) == "slowed: rank 3 computes 2.4x slower than the median, and 1 more");
  CHECK(trouble_of(nodes[0].ranks[1], job.slow, false) == "slow 2.4x");
  CHECK(trouble_of(nodes[0].ranks[1], job.slow, true) == "holds up");
  CHECK(trouble_of(nodes[0].ranks[0], job.slow, false).empty());
}

TEST_CASE("while a job stands still its pace is 0, nothing is left to tell, and no time is useful", "[status]") {
  RankView waits = a_rank(0, Activity::wait, 5s), stopped = a_rank(1, Activity::compute, 5s);
  waits.total_steps = 100;
  stopped.stopped = true;
  NodeReport node = a_node(0, {waits, stopped});
  node.spent = RoundSpent{.reports = true, .train = 20s, .doing = TimeKind::productive, .since_progress = 5s};
  StatusAnswer answer{.job = running_job(), .nodes = {node}};
  answer.job->round_age = 20s;
  JobSummary summary = summary_of(answer);
  CHECK(summary.steps_per_second == 0.0);
  CHECK_FALSE(summary.outlook->seconds_left);
  CHECK((*summary.account)[TimeKind::hang] == Duration(5s));
  CHECK((*summary.account)[TimeKind::productive] == Duration(15s));
  answer.nodes[0].ranks[1].stopped = false;
  answer.nodes[0].ranks[1].age = 20ms;
  summary = summary_of(answer);
  CHECK(summary.steps_per_second == 10.0);
  CHECK((*summary.account)[TimeKind::productive] == Duration(20s));
  answer.nodes[0].ranks[1] = a_rank(1, Activity::save, 5s);  // no step, and all is well
  summary = summary_of(answer);
  CHECK(summary.steps_per_second == 0.0);
  CHECK((*summary.account)[TimeKind::hang] == Duration(0s));
}

TEST_CASE("the end is told with its cause, or with how long it took", "[status]") {
  CHECK(in_words(condition_of(Outcome{}, 11'520s, "")) == "ended well after 3 h 12 min");
  Outcome failed{.verdict = Verdict::worker_failed, .reason = "all restarts are used up (3 of 3)"};
  CHECK(in_words(condition_of(failed, 60s, "rank 3 hung in model.py:212")) == "failed: rank 3 hung in model.py:212");
  CHECK(in_words(condition_of(failed, 60s, "")) == "failed: all restarts are used up (3 of 3)");
  const Outcome interrupted{.verdict = Verdict::interrupted, .signal = 2, .reason = "interrupted by SIGINT"};
  CHECK(in_words(condition_of(interrupted, 60s, "")) == "stopped: interrupted by SIGINT");
  CHECK(level_of(condition_of(failed, 60s, "").condition) == Level::bad);
}
