// Jobs in which one rank makes the others wait: it is named, on one node and on three, and can be replaced.
#include <nlohmann/json.hpp>

#include "tests/e2e/control_groups.h"
#include "tests/e2e/hang_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

constexpr const char* kLong = "7000";  // steps

struct SlowJob : ThreeRanks {
  SlowJob(int nodes, const Words& options, const Words& worker, bool named_apart = false)
      : ThreeRanks(nodes,
                   joined({{"--event-log-handler=file:events"}, nodes > 1 ? Words{"--nnodes=2:3"} : Words{}, options}),
                   joined({{programs_folder() + "/hang_worker"}, worker}), {}, named_apart) {}
  // Of all nodes, those with this state.
  std::vector<nlohmann::json> events(const std::string& state) const {
    std::vector<nlohmann::json> out;
    for (const std::string& line : lines_of(read_file(stuck.folder() / "events")))
      if (const auto event = nlohmann::json::parse(line); event.at("metadata").at("state") == state) {
        out.push_back(event.at("metadata"));
        out.back()["timestamp"] = event.at("timestamp");
      }
    return out;
  }
};

// The only line about a straggler that the job prints says this of it.
void expect_named(SlowJob& job, const std::string& expected) {
  REQUIRE(eventually([&] { return count(job.all_err(), "than the median") > 0; }, 3 * kLimit));
  CHECK_THAT(job.all_err(), Matches("[\\s\\S]*ddprun: " + expected + " than the median, for \\d+ steps[\\s\\S]*"));
  CHECK_FALSE(eventually([&] { return count(job.all_err(), "than the median") > 1; }, 2s));
}

// The step that the worker was in at this time, by its own words.
int step_at(const std::string& out, std::int64_t milliseconds) {
  int last = 0, step = 0;
  long long at = 0;
  for (const std::string& line : lines_of(out))
    if (std::sscanf(line.c_str(), "step %d at %lld", &step, &at) == 2 && at <= milliseconds) last = step;
  return last;
}

bool names_or_skip() {
  const bool can = run({"unshare", "--uts", "hostname", "slow0"}, kLimit).code == 0;
  return !skipped_if(!can, "no UTS namespace can be made here");
}

}  // namespace

TEST_CASE("a rank that computes slowly is named, once, and written to the event log", "[straggler][nodes][sanitized]") {
  SlowJob job(1, {}, {kLong, "slow-compute", "1", "20"});
  expect_named(job, "rank 1 computes \\d+\\.\\dx slower");
  const auto events = job.events("STRAGGLER");
  REQUIRE(events.size() == 1);
  CHECK(events[0].at("slow_rank") == "1");
  CHECK(events[0].at("phase") == "compute");
  CHECK(std::stod(events[0].at("ratio").get<std::string>()) > 1.25);
  CHECK(std::stoi(events[0].at("steps").get<std::string>()) >= 15);
}

TEST_CASE("in a job that nothing disturbs nobody is a straggler", "[straggler][nodes]") {
  SlowJob job(1, {}, {"500"});
  CHECK(job.agents[0]->wait_exit(3 * kLimit) == exited(0));
  CHECK(count(job.all_err(), "than the median") == 0);
}

TEST_CASE("nobody is named where nobody asks", "[straggler][nodes]") {
  SlowJob job(1, {"--stragglers=off"}, {"300", "slow-compute", "1", "20"});
  CHECK(job.agents[0]->wait_exit(3 * kLimit) == exited(0));
  CHECK(count(job.all_err(), "than the median") == 0);
}

TEST_CASE("a straggler's node is left out, and the others go on", "[straggler][nodes]") {
  if (!names_or_skip()) return;
  SlowJob job(3, {"--stragglers=replace"}, {"1500", "slow-compute", "1", "20"}, true);
  expect_named(job, "rank 1 \\(slow1\\) computes \\d+\\.\\dx slower");
  CHECK_THAT(job.agents[0]->err(), Contains("slow1") && Contains("is left out (--stragglers=replace): a new round"));
  for (const std::size_t node : {0, 2}) {
    CHECK(job.agents[node]->wait_exit(3 * kLimit) == exited(0));
    CHECK_THAT(job.agents[node]->out(), Contains("done in round 2"));
  }
  CHECK_THAT(job.agents[1]->err(), Contains("this node is excluded"));
  CHECK_FALSE(has(job.agents[1]->out(), "done in"));
}

TEST_CASE("a dry run says whose node would be left out", "[straggler][nodes]") {
  if (!names_or_skip()) return;
  SlowJob job(3, {"--stragglers=dry-run"}, {kLong, "slow-load", "2", "20"}, true);
  expect_named(job, "rank 2 \\(slow2\\) waits \\d+\\.\\dx longer for data");
  CHECK(count(job.all_err(), "; --stragglers=replace would go on without slow2.\n") == 1);
  CHECK(count(job.all_err(), "a new round") == 0);
  CHECK(job.events("STRAGGLER").size() == 1);
}

TEST_CASE("a rank with 30 % of a CPU is named, within twenty steps where the machine is quiet, and no other",
          "[straggler][nodes]") {
  const QuotaGroup group(30'000);
  if (skipped_if(!group.usable(), "no CPU control group can be made here")) return;
  constexpr int kLastNormalStep = 60;
  SlowJob job(1, {}, {kLong, "quota", "2", std::to_string(kLastNormalStep), group.processes()});
  expect_named(job, "rank 2 computes \\d+\\.\\dx slower");
  const nlohmann::json named = job.events("STRAGGLER").at(0);
  CHECK(named.at("phase") == "compute");
  const int in_step = step_at(job.agents[0]->out(), named.at("timestamp").get<std::int64_t>());
  const int slow_steps = in_step - 1 - kLastNormalStep;
  if (slow_steps > 20 &&
      !soaking()) {  // the rules themselves are tested in rendezvous/coordination/inquiry/straggler_test.cpp
    WARN("named after " << slow_steps << " slow steps: other work on this machine made its usual steps vary");
    return;
  }
  CHECK(slow_steps <= 20);
  CHECK(std::stoi(named.at("steps").get<std::string>()) <= 20);
  // Other work makes its usual steps longer, too.
  CHECK(std::stod(named.at("ratio_before").get<std::string>()) >= (soaking() ? 1.75 : 1.2));
}
