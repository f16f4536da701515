#include "launcher/chaos/chaos_outcomes.h"
#include "launcher/chaos/chaos_plan.h"
#include "launcher/chaos/chaos_words.h"
#include "rendezvous/coordination/inquiry/act.h"
#include "tests/support/test.h"

using nlohmann::json;

namespace {

std::vector<std::string> listed(std::uint64_t seed, int count, const std::vector<FaultKind>& kinds, int ranks) {
  ChaosPlan plan(seed, kinds);
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.push_back(in_words(plan.next().of_job(ranks)));
  return out;
}

std::vector<FaultKind> all_kinds() { return read_chaos_words({}).faults; }

json live_at(int round, std::int64_t step, double run_seconds = 100) {
  return {{"state", "running"},
          {"round", round},
          {"world_size", 2},
          {"step", step},
          {"run_seconds", run_seconds},
          {"restarts", {{"charged", round - 1}}},
          {"ranks", {{{"step", step}}, {{"step", step}}}}};
}

}  // namespace

TEST_CASE("the same seed gives the same faults, and each class comes before any comes again", "[chaos]") {
  CHECK(listed(7, 4, all_kinds(), 8) == std::vector<std::string>{"preempt the node of rank 2", "segv rank 5",
                                                                 "cut the node of rank 6 for 6.1 s", "kill rank 6"});
  CHECK(listed(7, 50, all_kinds(), 8) == listed(7, 50, all_kinds(), 8));
  CHECK(listed(7, 8, all_kinds(), 8) != listed(8, 8, all_kinds(), 8));
  ChaosPlan plan(1, all_kinds());
  for (int cycle = 0; cycle < 20; ++cycle) {
    std::map<FaultKind, int> seen;
    for (std::size_t i = 0; i < all_kinds().size(); ++i) {
      const ChaosPlan::Item item = plan.next();
      ++seen[item.kind];
      CHECK(item.time <= rendezvous::kFaultTimeMax);
      CHECK(item.of_job(3).rank < 3);
    }
    CHECK(seen.size() == all_kinds().size());
  }
}

TEST_CASE("the command line of chaos", "[chaos]") {
  const ChaosWords words =
      read_chaos_words({"mnist", "--seed=5", "--faults", "kill,segv,kill", "--every=2m", "--for=1h"});
  CHECK(words.mistake.empty());
  CHECK(words.job == "mnist");
  CHECK(words.seed == 5u);
  CHECK(words.faults == std::vector{FaultKind::kill, FaultKind::segv});
  CHECK(words.every == 2min);
  CHECK(words.time == Duration(1h));
  CHECK(all_kinds().size() == std::size(rendezvous::kFaults));
  const auto mistake = [](const std::vector<std::string>& wrong) { return read_chaos_words(wrong).mistake; };
  CHECK_THAT(mistake({"--faults=kil"}), Contains("--faults names 'kil'") && Contains("Did you mean 'kill'?"));
  CHECK_THAT(mistake({"--every=0"}), Contains("it takes a time above 0"));
  CHECK_THAT(mistake({"--seed=-1"}), Contains("it takes a whole number from 0 up"));
  CHECK_THAT(mistake({"--count=0"}), Contains("it takes a whole number from 1 up"));
  CHECK_THAT(mistake({"--count=1", "--for=1m"}), Contains("exclude each other"));
  CHECK_THAT(mistake({"a", "b"}), Contains("'b' is one word too many"));
  CHECK_THAT(mistake({"--sed=1"}), Contains("there is no option --sed"));
  CHECK_THAT(mistake({"--seed"}), Contains("--seed needs a value"));
  CHECK_THAT(mistake({"--token-file=x"}), Contains("it takes --rdzv-endpoint, too"));
  CHECK(mistake({"--rdzv-backend=etcd", "--rdzv-endpoint=e1", "--rdzv-conf=user=u"}).empty());
  CHECK_THAT(read_chaos_words({"--help"}).answer, Contains("--allow-chaos"));
}

TEST_CASE("a job has recovered from a death once all ranks have done a step of a later round", "[chaos]") {
  Recovery recovery(live_at(1, 50), {FaultKind::kill, 0});
  CHECK_FALSE(recovery.on(live_at(1, 50), 0.1));
  CHECK_FALSE(recovery.on(live_at(1, 53), 0.2));  // the death is not known yet
  CHECK_FALSE(recovery.on({}, 0.3));
  json starts = live_at(2, 41);
  starts["ranks"][1]["step"] = nullptr;
  CHECK_FALSE(recovery.on(starts, 0.4));
  CHECK(recovery.on(live_at(2, 42), 0.5));
  CHECK(recovery.steps_lost() == 11);
  CHECK(recovery.charged() == 1);
}

TEST_CASE("a job has recovered from what it need not die of when it goes on after its end", "[chaos]") {
  Recovery recovery(live_at(1, 50), {FaultKind::disk, 0, 2s});
  CHECK_FALSE(recovery.on(live_at(1, 60), 1.9));
  CHECK_FALSE(recovery.on(live_at(1, 61), 2.1));
  CHECK_FALSE(recovery.on(live_at(1, 61), 2.2));
  CHECK(recovery.on(live_at(1, 62), 2.3));
  CHECK(recovery.steps_lost() == 0);
  Recovery hung(live_at(1, 50), {FaultKind::stop, 0, 20s});
  CHECK(hung.on(live_at(2, 45), 4));
  CHECK(hung.steps_lost() == 5);
}

TEST_CASE("a fault that a node declines is no recovery", "[chaos]") {
  json live = live_at(1, 50);
  live["declined_faults"] = {7};  // an earlier one
  Recovery recovery(live, {FaultKind::disk, 0, 2s, UINT64_MAX});
  CHECK_FALSE(recovery.on(live, 0.1));
  CHECK_FALSE(recovery.declined());
  live["declined_faults"] = {7, UINT64_MAX};
  CHECK(recovery.on(live, 0.2));
  CHECK(recovery.declined());
  CHECK(chaos_json(5, {}, 1)["declined"] == 1);
}

TEST_CASE("a job that was started again has recovered from a preemption", "[chaos]") {
  Recovery recovery(live_at(3, 50), {FaultKind::preempt, 0});
  CHECK_FALSE(recovery.on(live_at(3, 52, 101), 1));
  CHECK(recovery.on(live_at(1, 53, 2), 5));
  CHECK(recovery.steps_lost() == 0);
  CHECK(recovery.charged() == 0);
}

TEST_CASE("the table of chaos has a row for each class", "[chaos]") {
  const std::vector<ChaosOutcome> outcomes{{FaultKind::kill, 0.5, 3, 1},
                                           {FaultKind::kill, 0.25, 9, 1},
                                           {FaultKind::slow, 4.0, 0, 0},
                                           {FaultKind::cut, {}, 0, 0}};
  CHECK(chaos_table(outcomes) ==
        "FAULT  TIMES  RECOVERED  SECONDS: MEDIAN  P90   MAX   STEPS LOST: MEDIAN  MAX  CHARGED\n"
        "kill   2      2          0.50             0.50  0.50  9                   9    2\n"
        "cut    1      0          -                -     -     -                   -    0\n"
        "slow   1      1          4.00             4.00  4.00  0                   0    0\n");
  CHECK_FALSE(all_recovered(outcomes));
  CHECK(chaos_json(5, outcomes)["faults"][3]["recovery_seconds"].is_null());
}
