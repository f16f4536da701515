#include "launcher/print/dry_run.h"

#include "agent/process/groups/numa.h"
#include "tests/support/test.h"

TEST_CASE("a dry run shows for each rank what it would get", "[dry_run]") {
  PlannedWorker worker{1, 1, "/usr/bin/python3", {"python3", "-u", "train.py", "two words", "it's", ""}};
  worker.environment = {{"RANK", "1"}, {"WORDS", "a b"}, {"GONE", std::nullopt}};
  worker.cpus = {0, 1, 2, 8};
  worker.memory_nodes = "0";
  worker.stdin_from = "/dev/null";
  worker.stdout_to = {"logs/rank-1/stdout.log"};
  worker.stderr_to = {"the console", "logs/rank-1/stderr.log"};
  CHECK(dry_run_text({worker}) ==
        "rank 1 (local rank 1)\n"
        "  runs        python3 -u train.py 'two words' 'it'\\''s' ''\n"
        "  program     /usr/bin/python3\n"
        "  environment GONE is removed\n"
        "              RANK=1\n"
        "              WORDS='a b'\n"
        "  CPUs        0-2,8\n"
        "  memory      node 0\n"
        "  stdin       /dev/null\n"
        "  stdout      logs/rank-1/stdout.log\n"
        "  stderr      the console and logs/rank-1/stderr.log\n");
}

TEST_CASE("the environment of a dry run is what differs from ddprun's own", "[dry_run]") {
  const EnvironmentDifference changes =
      difference({{"A", "1"}, {"B", "2"}, {"C", "3"}}, {{"A", "1"}, {"B", "x"}, {"D", ""}});
  CHECK(changes == EnvironmentDifference{{"B", "x"}, {"C", std::nullopt}, {"D", ""}});
}

TEST_CASE("CPU sets are shown as ranges", "[dry_run]") {
  CHECK(cpu_list({}) == "");
  CHECK(cpu_list({7}) == "7");
  CHECK(cpu_list({3, 1, 2, 9, 11, 12}) == "1-3,9,11-12");
}
