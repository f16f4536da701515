// How many CPUs control groups leave, read from made-up trees (a real group: e2e/scheduler_test.cpp) and by ddprun in a
// real group.
#include "agent/process/groups/cpu_quota.h"

#include "tests/support/test.h"

namespace {

struct Tree {
  TempFolder root;
  Tree& put(const std::string& path, const std::string& text) {
    fs::create_directories((root / path).parent_path());
    root.write(path, text);
    return *this;
  }
  std::optional<double> quota() const { return read_cpu_quota(root.path()); }
};

constexpr const char* kMount2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
constexpr const char* kMount1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

}  // namespace

TEST_CASE("a CPU quota is read as the kernel writes it", "[cpu_quota]") {
  CHECK(cpus_of_quota("150000 100000\n") == 1.5);
  CHECK(cpus_of_quota("1000 100000\n") == 0.01);
  for (const char* none : {"max 100000\n", "-1\n 100000\n", "", "100000", "100000 0", "rubbish"}) {
    CAPTURE(none);
    CHECK_FALSE(cpus_of_quota(none));
  }
}

TEST_CASE("whole CPUs count, at least one, and never more than the affinity leaves", "[cpu_quota]") {
  CHECK(cpus_within(8, {}) == 8);
  CHECK(cpus_within(8, 3.0) == 3);
  CHECK(cpus_within(8, 2.99) == 2);
  CHECK(cpus_within(8, 0.5) == 1);
  CHECK(cpus_within(2, 16.0) == 2);
  CHECK(cpus_within(0, {}) == 1);
}

TEST_CASE("the lowest quota of our group and those around it counts", "[cpu_quota]") {
  Tree tree;
  tree.put("proc/self/cgroup", "0::/kubepods/pod1/container\n").put("proc/self/mountinfo", kMount2);
  CHECK_FALSE(tree.quota());
  tree.put("sys/fs/cgroup/kubepods/pod1/container/cpu.max", "max 100000\n");
  tree.put("sys/fs/cgroup/kubepods/cpu.max", "1600000 100000\n");
  CHECK(tree.quota() == 16.0);
  tree.put("sys/fs/cgroup/kubepods/pod1/cpu.max", "250000 100000\n");
  CHECK(tree.quota() == 2.5);
  tree.put("sys/fs/cgroup/cpu.max", "100000 100000\n");  // the root of a container's own namespace has one
  CHECK(tree.quota() == 1.0);
}

TEST_CASE("version 1's quota counts where the CPU controller is there", "[cpu_quota]") {
  Tree tree;
  tree.put("proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:/a/b\n0::/c\n");
  tree.put("proc/self/mountinfo", std::string(kMount2) + kMount1);
  tree.put("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
  tree.put("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
  tree.put("sys/fs/cgroup/c/cpu.max", "100000 100000\n");  // of a group without the controller
  CHECK_FALSE(tree.quota());
  tree.put("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n");
  tree.put("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  CHECK(tree.quota() == 3.0);
}
