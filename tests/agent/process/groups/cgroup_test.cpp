#include "agent/process/groups/cgroup.h"

#include <poll.h>
#include <sys/prctl.h>

#include "agent/process/files/file_content.h"
#include "tests/support/test.h"

namespace {

// Some machines let us have none: then there is nothing to be tried.
std::optional<Cgroup> cgroup_here() {
  auto made = Cgroup::create();
  if (!made) std::cout << "no cgroup may be made here: not tried\n";
  return made;
}

Spawned spawn_in(const Cgroup& group, const std::string& command) {
  SpawnRequest request{"/bin/sh", {"sh", "-c", command}, {"PATH=/usr/bin:/bin"}};
  request.cgroup_fd = group.fd();
  return spawn(request);
}

std::optional<ExitStatus> wait_for_end(const Spawned& worker) {
  REQUIRE(worker.error == 0);
  pollfd end{worker.fd.get(), POLLIN, 0};
  REQUIRE(poll(&end, 1, 10'000) == 1);
  return reap(worker.child(), worker.pid);
}

int processes_in(const Cgroup& group) {
  const std::string pids = file_content(group.folder() / "cgroup.procs");
  return static_cast<int>(std::count(pids.begin(), pids.end(), '\n'));
}

}  // namespace

TEST_CASE("our own control group is found in both layouts, and not where it is out of sight", "[cgroup]") {
  const std::string v2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
  const std::string hybrid =
      "25 24 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n26 24 0:23 / /sys/fs/cgroup/unified rw - "
      "cgroup2 x rw\n";
  const std::string container = "30 24 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
  CHECK(own_cgroup_folder(v2, "0::/user.slice/a\n") == "/sys/fs/cgroup/user.slice/a");
  CHECK(own_cgroup_folder(hybrid, "4:memory:/m\n0::/\n") == "/sys/fs/cgroup/unified/");
  CHECK(own_cgroup_folder(container, "0::/docker/abc/x\n") == "/sys/fs/cgroup/x");
  CHECK(own_cgroup_folder(container, "0::/docker/abcd\n").empty());
  CHECK(own_cgroup_folder(v2, "0::/../other\n").empty());
  CHECK(own_cgroup_folder(v2, "4:memory:/m\n").empty());
  CHECK(own_cgroup_folder("", "0::/\n").empty());
}

TEST_CASE("a control group ends at once what fled to other sessions, and goes away", "[cgroup]") {
  fs::path folder;
  if (const auto group = cgroup_here()) {
    folder = group->folder();
    const Spawned worker = spawn_in(*group, "trap '' TERM; (setsid sh -c 'sleep 60 & sleep 60' &) ; sleep 60");
    REQUIRE(worker.error == 0);
    REQUIRE(test::eventually([&] { return processes_in(*group) >= 5; }, 10s));
    CHECK(group->kill());
    CHECK(group->wait_until_empty(5s));
    CHECK(reap(worker.child(), 0) == ExitStatus{.signal = SIGKILL});
  }
  CHECK_FALSE(fs::exists(folder));
}

TEST_CASE("a worker in a control group is a worker like any other", "[cgroup]") {
  const auto group = cgroup_here();
  if (!group) return;
  SpawnRequest request{"/no/such/program", {"x"}, {}};
  request.cgroup_fd = group->fd();
  CHECK(spawn(request).error == ENOENT);
  const Spawned worker = spawn_in(*group, "test $(cut -d' ' -f6 /proc/$$/stat) = $$ && exit 5");
  CHECK(wait_for_end(worker) == ExitStatus{.code = 5});
}

TEST_CASE("where a control group cannot be used, the worker starts outside", "[cgroup]") {
  SpawnRequest request{"/bin/true", {"true"}, {}};
  request.cgroup_fd = 0;  // no folder of the kind
  CHECK(wait_for_end(spawn(request)) == ExitStatus{});
}

TEST_CASE("what an agent killed outright has left in its control group is ended by the next", "[cgroup]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t agent = fork();
  if (agent == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto group = Cgroup::create();
    if (group) spawn_in(*group, "setsid sleep 60 & wait");
    const std::string folder = group ? group->folder().string() : "";
    if (group && !test::eventually([&] { return processes_in(*group) >= 2; }, 10s)) _exit(1);
    [[maybe_unused]] const auto n = write(ends[1], folder.c_str(), folder.size() + 1);
    pause();
  }
  char folder[4096] = {};
  REQUIRE(read(ends[0], folder, sizeof folder - 1) > 0);
  if (const auto living = cgroup_here()) {  // the other one's agent lives: it stays
    CHECK(fs::exists(folder));
  }
  kill(agent, SIGKILL);
  waitpid(agent, nullptr, 0);
  // Another agent of this machine may be ending it at this moment: then the next one leaves it to that.
  CHECK(test::eventually([&] { return !cgroup_here() || !fs::exists(folder); }, 10s));
  close(ends[0]);
  close(ends[1]);
}
