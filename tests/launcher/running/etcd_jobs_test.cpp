#include "launcher/running/etcd_jobs.h"

#include "launcher/command/job_submission.h"
#include "tests/support/test.h"

namespace {

EtcdHolder holder_at(const std::string& name, const std::string& host) {
  return {.node = 7, .name = name, .places = {{host, 41000}}};
}

EtcdRecord record_of_round(int number, std::size_t nodes, Duration age) {
  EtcdRecord record{.age = age};
  record.round.number = number;
  record.round.nodes.resize(nodes);
  return record;
}

// One that runs, one that waits for nodes, one that all nodes have left, and one that has ended.
std::vector<EtcdEntry> four_jobs() {
  std::vector<EtcdEntry> jobs{{"mnist-7", {}}, {"new", {}}, {"old", {}}, {"done", {}}};
  jobs[0].keys.holder = holder_at("node3", "10.0.0.3");
  jobs[0].keys.record = record_of_round(4, 2, 65s);
  jobs[1].keys.holder = holder_at("node4", "10.0.0.4");
  jobs[2].keys.record = record_of_round(2, 8, 2h);
  jobs[3].keys.holder = holder_at("node5", "10.0.0.5");
  jobs[3].keys.holder->released = true;
  jobs[3].keys.record = record_of_round(1, 0, 3s);
  jobs[3].keys.record->over = Outcome{};
  return jobs;
}

std::string refusal(const EtcdEntry& job) {
  try {
    (void)coordinator_of(job);
  } catch (const JobRefused& refused) {
    return refused.what();
  }
  return {};
}

}  // namespace

TEST_CASE("the jobs at etcd are a table", "[etcd]") {
  CHECK(etcd_list_text(four_jobs()) ==
        "JOB      STATE           COORDINATOR  NODES  ROUND  CHANGED\n"
        "mnist-7  running         node3        2      4      1 min 5 s ago\n"
        "new      waiting         node4        -      -      -\n"
        "old      no coordinator  -            -      2      2 h 0 min ago\n"
        "done     ended           -            -      1      3.0 s ago\n");
}

TEST_CASE("and an array of JSON, in which null is unknown", "[etcd]") {
  const auto all = etcd_list_json(four_jobs());
  REQUIRE(all.size() == 4);
  CHECK(all[0] == nlohmann::json{{"run_id", "mnist-7"},
                                 {"state", "running"},
                                 {"coordinator", "node3"},
                                 {"round", 4},
                                 {"nodes", 2},
                                 {"changed_seconds", 65.0}});
  CHECK(all[1]["round"].is_null());
  CHECK(all[2]["coordinator"].is_null());
}

TEST_CASE("a job's coordinator is asked where it listens, and a sentence says where there is none", "[etcd]") {
  const auto jobs = four_jobs();
  CHECK(coordinator_of(jobs[0]) == std::vector<ControlAddress>{{"10.0.0.3", 41000}});
  CHECK(refusal(jobs[2]) == "old has no coordinator at the moment.");
  CHECK(refusal(jobs[3]) == "done has ended.");
  CHECK(refusal({"mnist", {}}) ==
        "etcd knows no job mnist: ddprun list --rdzv-backend=etcd shows those that it knows.");
}
