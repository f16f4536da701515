#include "agent/faults/faults.h"

#include "tests/support/test.h"

namespace {

struct Rig {
  void inject(FaultKind kind, std::uint64_t id = 0) { faults.inject({kind, 5, 10min, id}, 4); }

  asio::io_context io = {};
  std::optional<pid_t> worker = {};  // rank 5
  bool suspended = false, leaves = false;
  std::string printed = {};
  Faults faults{
      io,
      true,
      {[this](const std::string& line) { printed += line; },
       [this](int local_rank) { return local_rank == 1 ? worker : std::nullopt; }, [this] { return suspended; },
       [this](ddprun::Duration) { printed += "cut\n"; }, [this] { return !std::exchange(leaves, true); }}};
};

// Stands for a worker.
struct Child {
  Child() : pid(fork()) {
    if (pid == 0) std::signal(SIGXFSZ, SIG_IGN), kill(getpid(), SIGSTOP);
    while (pid == 0) pause();
    stops();
  }
  ~Child() { kill(pid, SIGKILL), waitpid(pid, nullptr, 0); }
  void stops() const { REQUIRE(waitpid(pid, nullptr, WUNTRACED) == pid); }
  bool has_gone_on() const { return waitpid(pid, nullptr, WCONTINUED | WNOHANG) == pid; }
  rlim_t file_limit() const {
    rlimit limits{};
    prlimit(pid, RLIMIT_FSIZE, nullptr, &limits);
    return limits.rlim_cur;
  }
  const pid_t pid;
};

}  // namespace

TEST_CASE("a fault that cannot be done is declined with the reason, and the last such one is known", "[chaos]") {
  Rig rig;
  for (const FaultKind kind : {FaultKind::cut, FaultKind::preempt}) rig.inject(kind, 1);
  CHECK(has(rig.printed, "cut\n"));
  CHECK(rig.faults.declined() == 0);
  rig.inject(FaultKind::preempt, 2);
  CHECK(rig.faults.declined() == 2);
  rig.inject(FaultKind::kill, 3);
  CHECK(has(rig.printed, "not done, as rank 5 has ended."));
  rig.faults.inject({.kind = FaultKind::cut, .id = 4}, {});
  CHECK(rig.faults.declined() == 4);
  Faults forbidden(rig.io, false, {[](const std::string&) {}, {}, {}, {}, {}});
  forbidden.inject({.kind = FaultKind::cut, .id = 5}, 4);
  CHECK(forbidden.declined() == 5);
}

TEST_CASE("a stopped worker goes on at the round's end, if it is still that one and no user stopped it", "[chaos]") {
  const Child child;
  Rig rig{.worker = child.pid};
  const auto goes_on = [&](std::optional<pid_t> then, bool suspended) {
    kill(child.pid, SIGCONT), child.has_gone_on();
    rig.worker = child.pid;
    rig.inject(FaultKind::stop);
    child.stops();
    rig.worker = then;  // its number may be another process's
    rig.suspended = suspended;
    rig.faults.end();
    return child.has_gone_on();
  };
  CHECK(goes_on(child.pid, false));
  CHECK_FALSE(goes_on(child.pid, true));
  CHECK_FALSE(goes_on({}, false));
}

TEST_CASE("after two faults of its files a worker has the limit that it had before", "[chaos]") {
  const Child child;
  Rig rig{.worker = child.pid};
  const rlim_t before = child.file_limit();
  for (int i = 0; i < 2; ++i) rig.inject(FaultKind::disk);
  CHECK(child.file_limit() == 4096);
  rig.faults.end();
  CHECK(child.file_limit() == before);
}
