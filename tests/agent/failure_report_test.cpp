#include "agent/failure_report.h"

#include <csignal>
#include <cstdlib>
#include <ctime>

#include "agent/exit_status.h"
#include "tests/support/catch.h"

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a worker's end is told in words", "[exit_status]") {
  CHECK(in_words({.signal = SIGKILL}) == "was killed by SIGKILL");
  CHECK(in_words({.code = 3}) == "exited with code 3");
  CHECK(in_words({.start_error = ENOEXEC}) == "could not be started (Exec format error)");
  CHECK(in_words({}) == "ended well");
  CHECK(signal_name(SIGRTMIN + 3) == "signal " + std::to_string(SIGRTMIN + 3));
}

TEST_CASE("the kernel's words become ours", "[exit_status]") {
  CHECK(exit_status_of(CLD_EXITED, 0).ok());
  CHECK(exit_status_of(CLD_EXITED, 7) == ExitStatus{.code = 7});
  CHECK(exit_status_of(CLD_KILLED, SIGTERM) == ExitStatus{.signal = SIGTERM});
  CHECK(exit_status_of(CLD_DUMPED, SIGSEGV) == ExitStatus{.signal = SIGSEGV});
}

TEST_CASE("the report is one screen that names the first failure and its last lines", "[failure_report]") {
  setenv("TZ", "UTC", 1);
  tzset();
  FailureReport report{
      {2, 0, 1, 5, {.signal = SIGKILL}}, "all restarts are used up (3 of 3)", "node7", "train.py", 4711};
  report.when = std::chrono::system_clock::time_point(1'700'000'000'123ms);
  report.into_round = 3210ms;
  report.last_lines = {"step 17", "oops"};
  report.log = "logs/run/round-2/rank-5/stderr.log";
  report.others = {"rank 0 exited with code 1"};
  CHECK(to_text(report) == R"(ddprun: the job failed: rank 5 (local rank 1) was killed by SIGKILL, 3.2 s into round 2.
  program:    train.py
  meaning:    from outside; often the kernel or the scheduler, because memory ran out
  when:       2023-11-14 22:13:20.123 on node7, pid 4711
  no restart: all restarts are used up (3 of 3)
  afterwards: rank 0 exited with code 1
  log:        logs/run/round-2/rank-5/stderr.log
  the last lines of its stderr:
    | step 17
    | oops
)");
}

TEST_CASE("a thousand ranks that failed in consequence fill one line, not a screen", "[failure_report]") {
  FailureReport report{{1, 0, 0, 0, {.code = 1}}, "", "h", "p"};
  for (int rank = 1; rank <= 1000; ++rank)
    report.others.push_back("rank " + std::to_string(rank) + " exited with code 1");
  const std::string text = to_text(report);
  CHECK(text.find("; and 992 more\n") != std::string::npos);
  CHECK(text.size() < 600);
}

TEST_CASE("error files of both forms are read, and what is no JSON is shown as it is", "[failure_report]") {
  CHECK(error_message_of(
            R"({"message": {"message": "RuntimeError: boom", "extraInfo": {"py_callstack": "Traceback: boom"}}})") ==
        "Traceback: boom");
  CHECK(error_message_of(R"({"message": {"message": "RuntimeError: boom"}})") == "RuntimeError: boom");
  CHECK(error_message_of(R"({"message": "text", "timestamp": 1700000000})") == "text");
  CHECK(error_message_of(R"({"message": {"mess)") == R"({"message": {"mess)");
  CHECK(error_message_of(R"({"message": 3})") == R"({"message": 3})");
  CHECK(error_message_of(R"({"message": {"extraInfo": 3}})") == R"({"message": {"extraInfo": 3}})");
}
