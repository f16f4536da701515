#include "agent/logs/round_output.h"

#include "tests/support/test.h"

TEST_CASE("a rule about output is told once in a round, and what was measured before it, and after the round, too",
          "[round_output]") {
  asio::io_context io;
  bool runs = true;
  Words told;
  const auto monitor = std::make_shared<OutputMonitor>(
      std::vector<OutputRule>{{.pattern = R"(loss (\S+))", .value = *read_value_test("nan")}},
      std::vector<MetricDefinition>{{.name = "x", .pattern = "x=(.*)"}});
  const auto on_rule = [&](const OutputWatch::Finding& found) {
    told.push_back("rule/" + std::to_string(found.local_rank));
  };
  const auto on_metric = [&](const Metric& metric) { told.push_back("x=" + std::to_string(int(metric.last))); };
  RoundOutput output(io, monitor, {[&] { return runs; }, on_rule, on_metric, {}});
  output.begin_round(1, true);
  output.watch();
  monitor->tap(1, 0)("x=1\nloss nan\n");
  CHECK(eventually([&] { return io.restart(), io.poll(), !told.empty(); }, 20s));
  output.watch();
  CHECK(told == Words{"x=1", "rule/0"});

  output.begin_round(2, true);
  CHECK_FALSE(output.finding());
  monitor->tap(2, 1)("loss nan\n");
  output.worker_ended(2, 1);  // its lines count no longer
  output.watch();
  monitor->tap(2, 1)("loss nan\n");
  monitor->tap(2, 0)("x=2\n");
  runs = false;
  io.restart();
  io.run_for(20s);
  CHECK(io.stopped());
  CHECK(told.size() == 2);
  output.tell();
  CHECK(told.back() == "x=2");

  runs = true;
  output.begin_round(3, false);  // rank 0 is on another node
  monitor->tap(3, 0)("x=3\nloss nan\n");
  output.watch();
  CHECK(told == Words{"x=1", "rule/0", "x=2", "rule/0"});
}
