#include "agent/round/supervisor.h"

#include "tests/support/test.h"
#include "tests/support/transcript.h"

namespace {

const TimePoint t0{};
const fs::path testdata = fs::path(source_folder()) / "tests/agent/testdata";

std::string text(const std::vector<Action>& actions) {
  std::string out;
  for (const Action& action : actions) out += (out.empty() ? "" : ", ") + to_string(action);
  return out;
}

// A supervisor in each of its states, and the events that lead there.
Supervisor after(const std::vector<std::string>& events) {
  Supervisor supervisor({.preempt_exit_code = 31});
  TimePoint now = t0;
  for (const std::string& event : events) {
    if (event == "tick") now += 1min;  // beyond every deadline
    supervisor.on(parse_event(event), now);
  }
  return supervisor;
}

const std::vector<std::string> kRunning{"round-formed", "round-started", "worker-started local_rank=0",
                                        "worker-started local_rank=1"};

const std::vector<std::string> kBothExited{"worker-exited local_rank=0 code=0", "worker-exited local_rank=1 code=1"};

}  // namespace

TEST_CASE("the table of every state and event is as reviewed", "[supervisor]") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> states{
      {"waiting", {}},
      {"seated", {"round-formed"}},
      {"running", kRunning},
      {"running, one ended well", with(kRunning, {"worker-exited local_rank=0 code=0"})},
      {"stopping, undecided", with(kRunning, {"worker-exited local_rank=0 code=1"})},
      {"stopping, regroup", with(kRunning, {"worker-exited local_rank=0 code=1", "round-ended"})},
      {"stopping, end", with(kRunning, {"worker-exited local_rank=0 code=1", "job-ended worker-failed"})},
      {"stopping, dying", with(kRunning, {"worker-dying local_rank=1 signal=SIGKILL"})},
      {"stopping, interrupted", with(kRunning, {"signalled SIGTERM"})},
      {"stopping, preempted", with(kRunning, {"worker-exited local_rank=0 code=31"})},
      {"held", with(kRunning, {"worker-exited local_rank=0 code=1", "tick", "tick"})},
      {"sweeping, undecided", with(kRunning, kBothExited)},
      {"sweeping, regroup", with(kRunning, with(kBothExited, {"round-ended"}))},
      {"sweeping, end", with(kRunning, with(kBothExited, {"job-ended worker-failed"}))},
      {"stopped", with(kRunning, with(kBothExited, {"swept"}))},
      {"over", {"job-ended success"}},
  };
  const std::vector<std::string> events{"round-formed round=2",
                                        "round-started",
                                        "worker-started local_rank=1 round=2",
                                        "worker-dying local_rank=1 signal=SIGKILL",
                                        "worker-exited local_rank=1 code=0",
                                        "worker-exited local_rank=1 code=1",
                                        "worker-dying local_rank=1 code=31",
                                        "worker-exited local_rank=1 code=31",
                                        "swept",
                                        "swept round=2",
                                        "round-ended",
                                        "round-ended planned",
                                        "job-ended interrupted",
                                        "isolated",
                                        "signalled SIGINT",
                                        "signalled SIGTERM",
                                        "tick"};
  std::ostringstream table;
  for (const auto& [name, path] : states)
    for (const std::string& event : events) {
      Supervisor supervisor = after(path);
      const std::string actions = text(supervisor.on(parse_event(event), t0 + 1h));
      table << name << " | " << event << " | " << (actions.empty() ? "-" : actions) << " | " << supervisor.state_name()
            << '\n';
    }
  CHECK(matches_golden(testdata / "supervisor_table.txt", table.str()));
}

TEST_CASE("transcripts play as written", "[supervisor]") {
  for (const auto& file : fs::directory_iterator(testdata / "transcripts")) {
    INFO(file.path());
    CHECK(matches_golden(file.path(), replay(read_file(file.path()))));
  }
}

TEST_CASE("an exit code that announces a preemption is an ordinary failure where none was named", "[supervisor]") {
  Supervisor supervisor({});
  for (const std::string& event : kRunning) supervisor.on(parse_event(event), t0);
  CHECK(text(supervisor.on(WorkerExited{1, 0, {.code = 31}}, t0)) ==
        "ask-to-leave round=1, signal-workers SIGTERM, report-failure round=1 local_rank=0 code=31");
}

TEST_CASE("a worker that ignores SIGTERM is killed once the grace period is over", "[supervisor]") {
  Supervisor supervisor({.stop_grace = 25s, .notice_first = 1h});
  for (const std::string& event : kRunning) supervisor.on(parse_event(event), t0);
  supervisor.on(WorkerExited{1, 0, {.signal = SIGSEGV}}, t0 + 5s);
  CHECK(supervisor.next_deadline() == t0 + 30s);
  CHECK(supervisor.on(Tick{}, t0 + 29s).empty());
  CHECK(text(supervisor.on(Tick{}, t0 + 30s)) == "signal-workers SIGKILL");
}
