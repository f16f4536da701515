// What fails when in a simulated job, who comes and goes, and what users do.
#pragma once
#include <functional>

#include "tests/simulation/cluster_world.h"

namespace ddprun::test {

class ClusterFaults {
 public:
  explicit ClusterFaults(ClusterWorld& world) : world_(world) {}
  void schedule();

 private:
  void at_some_time(int times, const std::function<void()>& what);
  // To any node; the first ones hit the coordinator's.
  void schedule_fault(int times, const std::function<void(ClusterAgent&)>& fault);
  void cut(const ClusterAgent& agent);
  void stand(ClusterAgent& agent);
  void join();
  void act();
  ClusterAgent& any_of(const std::vector<NodeId>& nodes);

  ClusterWorld& world_;
  int sides_ = 0;
};

}  // namespace ddprun::test
