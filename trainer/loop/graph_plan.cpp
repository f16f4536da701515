#include "trainer/loop/graph_plan.h"

namespace ddprun::train {

StepWay GraphPlan::next(const BatchShape& shape, bool ready) {
  if (recorded_) return shape == *recorded_ ? StepWay::replay : StepWay::eager;
  int& eager = eager_[shape];
  if (eager < kWarmUp || !ready) {
    ++eager;
    return StepWay::eager;
  }
  recorded_ = shape;
  return StepWay::record;
}

}  // namespace ddprun::train
