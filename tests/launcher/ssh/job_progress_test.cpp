#include "launcher/ssh/job_progress.h"

#include "rendezvous/base/overloaded.h"
#include "tests/support/test.h"

namespace {

const TimePoint t0{};

// "start 0:0 2:1", "signal 15", "print ...", "finish 69 ..."
std::string text_of(const std::vector<ProgressAction>& actions) {
  std::string out;
  for (const ProgressAction& action : actions) {
    out += out.empty() ? "" : " | ";
    std::visit(overloaded{
                   [&](const PrintSentence& print) { out += "print " + print.sentence; },
                   [&](const StartOn& start) {
                     out += "start";
                     for (const auto& [index, rank] : start.ranks)
                       out += " " + std::to_string(index) + ":" + std::to_string(rank);
                   },
                   [&](const SendSignal& send) { out += "signal " + std::to_string(send.signal); },
                   [&](const FinishJob& finish) {
                     out += "finish " + std::to_string(finish.end.exit_code);
                     for (const std::string& sentence : finish.sentences) out += " " + sentence;
                   },
               },
               action);
  }
  return out;
}

class Story {
 public:
  explicit Story(int least = 3) : progress({{"a", "b", "c"}, least, {"ssh", "-p", "2222"}}, t0) {}
  std::string ready(int index, Duration at = 1s) { return text_of(progress.on(HostReady{index, "", "", 1}, t0 + at)); }
  std::string refused(int index, Duration at = 1s, bool usage = false) {
    return text_of(progress.on(HostRefused{index, "no " + std::to_string(index) + ".", usage}, t0 + at));
  }
  std::string ended(int index, int code, const std::string& message = "") {
    return text_of(progress.on(HostEnded{index, true, {code, message, {}}}, t0 + 60s));
  }
  std::string killed(int index) { return text_of(progress.on(HostEnded{index, false, {137, "", {}}}, t0 + 60s)); }
  std::string lost(int index) { return text_of(progress.on(HostLost{index, "cut"}, t0 + 60s)); }
  std::string time(Duration at) { return text_of(progress.on_time(t0 + at)); }
  std::string signal(int number, bool ends = true) { return text_of(progress.on_signal(number, ends)); }
  void all_start() {
    ready(0), ready(1);
    CHECK(ready(2) == "start 0:0 1:1 2:2");
  }

  JobProgress progress;
};

}  // namespace

TEST_CASE("a job starts when all its hosts are ready, and ends as its agents do", "[ssh]") {
  Story story;
  CHECK(story.ready(2).empty());
  CHECK(story.ready(0).empty());
  CHECK(story.ready(1) == "start 0:0 1:1 2:2");
  CHECK_FALSE(story.progress.next_deadline());
  CHECK(story.ended(1, 0).empty());
  CHECK(story.ended(0, 0).empty());
  CHECK(story.ended(2, 0) == "finish 0");
  CHECK(story.lost(1).empty());
}

TEST_CASE("a host that refuses is told once all have answered, or after five seconds", "[ssh]") {
  Story all;
  CHECK(all.refused(1).empty());
  CHECK(all.ready(0).empty());
  CHECK(all.refused(2, 2s, true) == "finish 69 no 1. no 2.");

  Story late;
  CHECK(late.refused(1).empty());
  CHECK(late.progress.next_deadline() == t0 + 5s);
  CHECK(late.time(5s) == "finish 69 no 1.");

  Story usage;
  usage.ready(0), usage.ready(1);
  CHECK(usage.refused(2, 1s, true) == "finish 2 no 2.");

  Story slow;  // its login takes seven seconds, and fails
  slow.ready(0), slow.ready(1);
  CHECK(slow.time(5s) == "print waiting for c to answer; at most 30 s.");
  CHECK(slow.progress.next_deadline() == t0 + 30s);
  CHECK(slow.refused(2, 7s) == "finish 69 no 2.");

  Story silent;
  silent.ready(0), silent.ready(1), silent.time(5s);
  CHECK(silent.time(30s) == "finish 69 cannot reach c: no answer for 30 s. Try: ssh -p 2222 -o BatchMode=yes c true");

  Story lost_early;
  lost_early.ready(0), lost_early.ready(1);
  CHECK(lost_early.lost(0) == "finish 69 the connection to a is lost: cut.");
}

TEST_CASE("an elastic job starts with the hosts that are ready, if they are enough", "[ssh]") {
  Story story(2);
  CHECK(story.refused(0).empty());
  CHECK(story.ready(2).empty());
  CHECK(story.ready(1) == "print no 0. The job starts without a. | start 1:0 2:1");
  CHECK(story.ended(0, 1).empty());  // it takes no part
  CHECK(story.lost(1) == "signal 15");
  CHECK(story.ended(2, 143) == "finish 75 the connection to b is lost: cut. The others were stopped.");

  Story few(2);
  few.refused(0);
  CHECK(few.refused(1).empty());
  CHECK(few.ready(2) == "finish 69 no 0. no 1.");

  Story enough(2);
  enough.all_start();
  CHECK(enough.lost(0) == "print the connection to a is lost: cut.");
  CHECK(enough.ended(1, 0).empty());
  CHECK(enough.ended(2, 0) == "finish 0");
}

TEST_CASE("a host that is lost ends a job that needs it, with 75", "[ssh]") {
  Story story;
  story.all_start();
  CHECK(story.lost(1) == "signal 15");
  CHECK(story.lost(2).empty());  // the cause is told at the end
  CHECK(story.ended(0, 143) == "finish 75 the connection to b is lost: cut. The others were stopped.");

  Story killed;
  killed.all_start();
  CHECK(killed.killed(0) == "signal 15");

  Story at_the_end;  // the others have said how the job ended
  at_the_end.all_start();
  at_the_end.ended(0, 0), at_the_end.ended(1, 0);
  CHECK(at_the_end.lost(2) == "print the connection to c is lost: cut. | finish 0");
}

TEST_CASE("an agent that refuses to begin stops the others", "[ssh]") {
  Story story;
  story.all_start();
  CHECK(story.ended(1, 2, "no GPU.") == "signal 15");
  CHECK(story.ended(0, 75).empty());
  CHECK(story.ended(2, 75) == "finish 2 no GPU.");
}

TEST_CASE("of several agents' ends the last one counts, with the fullest report", "[ssh]") {
  Story story;
  story.all_start();
  story.ended(2, 143);  // left before
  story.ended(0, 1, "the job failed: rank 1 exited with code 3.\n  program: x");
  CHECK(story.ended(1, 1, "the job failed.") == "finish 1 the job failed: rank 1 exited with code 3.\n  program: x");
}

TEST_CASE("a signal ends a job that has not begun, and goes to the agents of one that runs", "[ssh]") {
  Story story;
  CHECK(story.signal(SIGCONT, false).empty());
  story.ready(0);
  CHECK(story.signal(SIGINT) == "finish 130");
  Story running;
  running.all_start();
  CHECK(running.signal(SIGINT) == "signal 2");
  CHECK(running.signal(SIGUSR1, false) == "signal 10");
  CHECK(running.killed(0).empty());  // it had only just begun
  running.ended(1, 130);
  CHECK(running.killed(2) == "finish 130");
}
