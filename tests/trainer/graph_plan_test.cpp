#include "trainer/loop/graph_plan.h"

#include "tests/support/test.h"

namespace {

const BatchShape kWhole{32, 1, 8, 8, 32}, kLast{12, 1, 8, 8, 12};

void warm_up(GraphPlan& plan, const BatchShape& shape, int steps = GraphPlan::kWarmUp) {
  for (int i = 0; i < steps; ++i) CHECK(plan.next(shape, true) == StepWay::eager);
}

}  // namespace

TEST_CASE("a step is recorded once it is warm, and repeated from then on", "[graph_plan]") {
  GraphPlan plan;
  warm_up(plan, kWhole);
  CHECK_FALSE(plan.has_graph());
  CHECK(plan.next(kWhole, true) == StepWay::record);
  CHECK(plan.has_graph());
  for (int i = 0; i < 3; ++i) CHECK(plan.next(kWhole, true) == StepWay::replay);
  CHECK(plan.next(kWhole, false) == StepWay::replay);  // asked before the recording only
}

TEST_CASE("a batch of another shape is taken without the graph, and neither hastens nor ends it", "[graph_plan]") {
  GraphPlan plan;
  warm_up(plan, kWhole, GraphPlan::kWarmUp - 1);
  CHECK(plan.next(kLast, true) == StepWay::eager);
  warm_up(plan, kWhole, 1);
  CHECK(plan.next(kLast, true) == StepWay::eager);
  CHECK(plan.next(kWhole, true) == StepWay::record);
  for (int i = 0; i < 2 * GraphPlan::kWarmUp; ++i) CHECK(plan.next(kLast, true) == StepWay::eager);
  CHECK(plan.next(kWhole, true) == StepWay::replay);
}

TEST_CASE("epochs of one batch that is never full have a graph, too", "[graph_plan]") {
  GraphPlan plan;
  warm_up(plan, kLast);
  CHECK(plan.next(kLast, true) == StepWay::record);
}

TEST_CASE("a step that still makes its state is not recorded", "[graph_plan]") {
  GraphPlan plan;
  for (int i = 0; i < 3 * GraphPlan::kWarmUp; ++i) CHECK(plan.next(kWhole, false) == StepWay::eager);
  CHECK(plan.next(kWhole, true) == StepWay::record);
}
