#include "agent/supervisor.h"

#include <csignal>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "tests/support/catch.h"
#include "tests/support/transcript.h"

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

const TimePoint t0{};
const std::filesystem::path testdata = std::filesystem::path(DDPRUN_SOURCE_DIR) / "tests/agent/testdata";

std::string content(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string text(const std::vector<Action>& actions) {
  std::string out;
  for (const Action& action : actions) out += (out.empty() ? "" : ", ") + to_string(action);
  return out;
}

// A supervisor in each of its states, and the events that lead there.
Supervisor after(const std::vector<std::string>& events) {
  Supervisor supervisor(0, {});
  for (const std::string& event : events) supervisor.on(parse_event(event), t0);
  return supervisor;
}

const std::vector<std::string> kRunning{"round-formed", "worker-started local_rank=0", "worker-started local_rank=1"};

std::vector<std::string> with(std::vector<std::string> events, const std::vector<std::string>& more) {
  events.insert(events.end(), more.begin(), more.end());
  return events;
}

}  // namespace

TEST_CASE("the table of every state and event is as reviewed", "[supervisor]") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> states{
      {"waiting", {}},
      {"running", kRunning},
      {"stopping, undecided", with(kRunning, {"worker-exited local_rank=0 code=1"})},
      {"stopping, regroup", with(kRunning, {"worker-exited local_rank=0 code=1", "round-ended"})},
      {"stopping, end", with(kRunning, {"worker-exited local_rank=0 code=1", "job-ended worker-failed"})},
      {"stopping, interrupted", with(kRunning, {"signalled SIGTERM"})},
      {"stopped", with(kRunning, {"worker-exited local_rank=0 code=0", "worker-exited local_rank=1 code=1"})},
      {"over", {"job-ended success"}},
  };
  const std::vector<std::string> events{"round-formed round=2",
                                        "worker-exited local_rank=1 code=0",
                                        "worker-exited local_rank=1 code=1",
                                        "round-ended",
                                        "job-ended interrupted",
                                        "signalled SIGINT",
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
  for (const auto& file : std::filesystem::directory_iterator(testdata / "transcripts")) {
    INFO(file.path());
    CHECK(matches_golden(file.path(), replay(content(file.path()))));
  }
}

TEST_CASE("a worker that ignores SIGTERM is killed once the grace period is over", "[supervisor]") {
  Supervisor supervisor(0, {.stop_grace = 25s});
  for (const std::string& event : kRunning) supervisor.on(parse_event(event), t0);
  supervisor.on(WorkerExited{1, 0, {.signal = SIGSEGV}}, t0 + 5s);
  CHECK(supervisor.next_deadline() == t0 + 30s);
  CHECK(supervisor.on(Tick{}, t0 + 29s).empty());
  CHECK(text(supervisor.on(Tick{}, t0 + 30s)) == "signal-workers SIGKILL");
}

// Plays the world for a supervisor at random, and keeps count of what it was told to do.
TEST_CASE("no order of events starts a worker twice in a round or leaves one running at the end", "[supervisor]") {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto roll = [&](int sides) { return static_cast<int>(random() % static_cast<unsigned>(sides)); };
    Supervisor supervisor(0, {});
    TimePoint now = t0;
    std::set<int> running;
    int round = 0;
    bool deaf = false, waiting = true, finished = false;
    std::deque<Event> due;
    const auto feed = [&](const Event& event) {
      for (const Action& action : supervisor.on(event, now)) {
        CHECK_FALSE(finished);
        if (std::holds_alternative<StartWorkers>(action)) {
          CHECK(running.empty());
          for (int rank = 0; rank < 3; ++rank) due.push_back(WorkerStarted{round, rank}), running.insert(rank);
        } else if (const auto* sent = std::get_if<SignalWorkers>(&action)) {
          if (sent->signal == SIGKILL || !deaf)
            for (const int rank : running) due.push_back(WorkerExited{round, rank, {.signal = sent->signal}});
        } else if (std::holds_alternative<ReportFailure>(action)) {
          if (roll(3))
            due.push_back(RoundEnded{round});
          else
            due.push_back(JobEnded{{Verdict::worker_failed, 0, "", {}}});
        } else if (std::holds_alternative<ReportInterrupted>(action)) {
          due.push_back(JobEnded{{Verdict::interrupted, SIGINT, "", {}}});
        } else if (std::holds_alternative<ReportDone>(action)) {
          due.push_back(JobEnded{});
        } else if (std::holds_alternative<Rejoin>(action)) {
          CHECK(running.empty());
          waiting = true;
        } else if (std::holds_alternative<Finish>(action)) {
          CHECK(running.empty());
          finished = true;
        }
      }
    };
    for (int step = 0; step < 3000 && !finished; ++step) {
      now += std::chrono::seconds(roll(10));
      if (!due.empty()) {
        const Event event = due.front();
        due.pop_front();
        if (const auto* exited = std::get_if<WorkerExited>(&event)) {
          if (exited->round != round || !running.erase(exited->local_rank)) continue;  // it had died before
        }
        feed(event);
      } else if (std::exchange(waiting, false)) {
        deaf = roll(4) == 0;
        feed(RoundFormed{round_of(3, ++round)});
      } else if (const auto deadline = supervisor.next_deadline(); deadline && now >= *deadline) {
        feed(Tick{});
      } else if (!running.empty() && roll(2)) {
        const int rank = *running.begin();
        running.erase(running.begin());
        feed(WorkerExited{round, rank, {.code = roll(4) == 0}});
      } else if (roll(20) == 0) {
        feed(Signalled{SIGINT});
      }
    }
    CHECK(finished);
  }
}
