#include "tests/simulation/cluster.h"

#include "tests/simulation/cluster_agent.h"
#include "tests/simulation/cluster_faults.h"

namespace ddprun::test {
namespace {

constexpr int kEventsMax = 20'000'000;

}  // namespace

Cluster::Cluster(const ClusterOptions& options)
    : world_(std::make_unique<ClusterWorld>(options)), faults_(std::make_unique<ClusterFaults>(*world_)) {
  faults_->schedule();
}

Cluster::~Cluster() = default;

void Cluster::run() {
  for (int events = 0; world_->net.step(); ++events) require(events < kEventsMax, "the job comes to an end");
  world_->checks.at_the_end();
}

int Cluster::hangs_found() const { return world_->hangs_found; }
int Cluster::rounds_from_snapshots() const { return world_->checks.rounds_from_snapshots(); }
int Cluster::acts_done() const { return world_->acts_done; }
const RestartCounts& Cluster::charged() const { return world_->checks.charged(); }
const std::vector<Outcome>& Cluster::outcomes() const { return world_->checks.outcomes(); }
const std::string& Cluster::transcript() const { return world_->transcript.text(); }

}  // namespace ddprun::test
