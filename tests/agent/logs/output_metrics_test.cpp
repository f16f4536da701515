#include "agent/logs/output_metrics.h"

#include <cmath>

#include "agent/logs/output_monitor.h"
#include "tests/support/catch.h"

using namespace ddprun::agent;

TEST_CASE("metrics are the numbers that lines have, with their last, least and largest value", "[output_metrics]") {
  OutputMetrics metrics(std::vector<MetricDefinition>{{.name = "loss", .pattern = "loss[ =](\\S+)"},
                                                      {.name = "epoch", .pattern = "epoch (\\d+)"}});
  CHECK(metrics.take_changed().empty());
  metrics.take_line("epoch 1: loss=0.5");
  metrics.take_line("loss nan");
  metrics.take_line("loss is high");  // no number
  metrics.take_line("loss 2e-1");
  const auto changed = metrics.take_changed();
  REQUIRE(changed.size() == 2);
  CHECK(changed[0].name == "loss");
  CHECK(changed[0].last == 0.2);
  CHECK(changed[0].least == 0.2);
  CHECK(changed[0].most == 0.5);
  CHECK(changed[0].count == 3);
  CHECK(changed[1].last == 1);
  CHECK(metrics.take_changed().empty());
  metrics.take_line("loss +0.7");
  REQUIRE(metrics.take_changed().size() == 1);
}

TEST_CASE("a metric that was never a number is nan at its least, too", "[output_metrics]") {
  OutputMetrics metrics(std::vector<MetricDefinition>{{.name = "loss", .pattern = "loss (.*)"}});
  metrics.take_line("loss nan ");
  const auto changed = metrics.take_changed();
  REQUIRE(changed.size() == 1);
  CHECK(std::isnan(changed[0].least));
  metrics.take_line("loss 1");
  CHECK(metrics.take_changed()[0].least == 1);
}

TEST_CASE("only lines of rank 0 are metrics, in whichever round", "[output_metrics]") {
  const auto shared = std::make_shared<OutputMonitor>(
      std::vector<OutputRule>(), std::vector<MetricDefinition>{{.name = "x", .pattern = "x=(.*)"}});
  shared->begin_round(1, true);
  shared->tap(1, 1)("x=9\n");
  CHECK(shared->take_metrics().empty());
  shared->tap(1, 0)("x=1\nx=2");
  CHECK(shared->take_metrics().at(0).last == 1);
  shared->begin_round(2, false);  // rank 0 is on another node now
  shared->tap(2, 0)("x=3\n");
  CHECK(shared->take_metrics().empty());
}
