#include "agent/diagnosis/failure_report.h"

#include <ctime>

#include "agent/process/exit_status.h"
#include "tests/support/test.h"
#include "tests/support/transcript.h"

namespace {

FailureReport report_of(const ExitStatus& status) {
  FailureReport report{{2, 0, 1, 5, status}, "all restarts are used up (3 of 3)", "node7", "train.py", 4711};
  report.when = WallTime(1'700'000'000'123ms);
  report.into_round = 3210ms;
  return report;
}

// The reports that testdata/reports.txt shows, each below a title.
std::string titled_reports() {
  std::string out;
  const auto add = [&](const std::string& title, const FailureReport& report) {
    out += "# " + title + "\n" + to_text(report) + "\n";
  };
  FailureReport crash = report_of({.signal = SIGSEGV});
  crash.meaning = "it accessed memory that it may not";
  crash.core = "/work/core.4711 (12 MiB)";
  crash.last_lines = {"step 17", "step 18"};
  crash.log = "logs/run with a  blank/round-2/rank-5/stderr.log";
  crash.others = {{0, {.code = 1}},        {1, {.signal = SIGTERM}}, {2, {.code = 1}},
                  {3, {.code = 1}},        {4, {.signal = SIGKILL}}, {6, {}},
                  {7, {.signal = SIGSEGV}}};
  add("A crash: who followed, and who was stopped", crash);

  FailureReport out_of_memory = report_of({.signal = SIGKILL});
  out_of_memory.meaning =
      "memory ran out: the kernel killed processes for lack of memory in control group /system.slice/job-7.scope (its "
      "count of such kills rose from 0 to 1): the group may use 64 GiB";
  add("A long explanation is broken at 80 columns", out_of_memory);

  FailureReport sets_port = report_of({.code = 1});
  sets_port.meaning = "another process has the port that it wants to listen on";
  sets_port.note = "train.py:3 sets MASTER_PORT, which ddprun had set for this worker: that may be why";
  add("A script that sets what ddprun has set", sets_port);

  FailureReport not_started = report_of({.start_error = ENOENT});
  not_started.pid = 0;
  not_started.meaning = "its first line asks for the interpreter /usr/bin/pythn, which is not there";
  add("It could not be started", not_started);

  FailureReport recorded = report_of({.code = 1});
  recorded.error = {"Traceback (most recent call last):\n  File \"t.py\", line 6, in main\nRuntimeError: boom\n",
                    WallTime(1'699'999'999s)};
  recorded.last_lines = {"step 17", "closing"};
  add("An error file, with its time, and other last lines", recorded);

  FailureReport printed = report_of({.code = 1});
  printed.error = {"Traceback (most recent call last):\nRuntimeError: boom\n", {}};
  printed.last_lines = {"Traceback (most recent call last):", "RuntimeError: boom"};
  add("An error that Python has printed, too, is shown once", printed);

  FailureReport long_error = report_of({.code = 1});
  long_error.error.text = "Traceback (most recent call last):\n";
  for (int i = 1; i <= 30; ++i) long_error.error.text += "  File \"deep.py\", line " + std::to_string(i) + "\n";
  long_error.error.text += "RecursionError: too deep\n";
  add("A long traceback keeps its start and its end", long_error);

  FailureReport wild = report_of({.signal = SIGTERM});
  wild.meaning = hint({.signal = SIGTERM});
  wild.last_lines = {"\x1b[31mred\x1b[0m", "10%\r50%\rdone", std::string("bytes \xff\xfe\0 end", 12), "tab\there",
                     std::string(2000, 'x')};
  add("Colours, progress bars, bytes and endless lines do no harm", wild);

  FailureReport hung = report_of({.hung = true});
  hung.failure.kind = FailureClass::hang;
  hung.others = {{0, {}}};
  add("A worker that was given up", hung);
  return out;
}

}  // namespace

TEST_CASE("a worker's end is told in words", "[exit_status]") {
  CHECK(in_words(ExitStatus{.signal = SIGKILL}) == "was killed by SIGKILL");
  CHECK(in_words(ExitStatus{.code = 3}) == "exited with code 3");
  CHECK(in_words(ExitStatus{.start_error = ENOEXEC}) == "could not be started (Exec format error)");
  CHECK(in_words(ExitStatus{.hung = true}) == "hung after other workers had succeeded");
  CHECK(in_words(ExitStatus{}) == "succeeded");
  CHECK(signal_name(SIGRTMIN + 3) == "signal " + std::to_string(SIGRTMIN + 3));
}

TEST_CASE("every signal has the name that kill -l gives it, and is found by it", "[exit_status]") {
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* name = sigabbrev_np(signal);
    CAPTURE(signal);
    CHECK(signal_name(signal) == (name ? std::string("SIG") + name : "signal " + std::to_string(signal)));
    CHECK(signal_number(signal_name(signal)) == (name ? signal : 0));
    if (name) CHECK(signal_number(name) == signal);
  }
}

TEST_CASE("the kernel's words become ours", "[exit_status]") {
  CHECK(exit_status_of(CLD_EXITED, 0).ok());
  CHECK(exit_status_of(CLD_EXITED, 7) == ExitStatus{.code = 7});
  CHECK(exit_status_of(CLD_KILLED, SIGTERM) == ExitStatus{.signal = SIGTERM});
  CHECK(exit_status_of(CLD_DUMPED, SIGSEGV) == ExitStatus{.signal = SIGSEGV});
}

TEST_CASE("every deadly signal has a meaning, and a shell's codes have theirs", "[exit_status]") {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP,
                           SIGSYS, SIGPIPE, SIGXCPU, SIGXFSZ}) {
    CAPTURE(signal_name(signal));
    CHECK_FALSE(hint({.signal = signal}).empty());
  }
  CHECK(hint({.code = 127}) == "the usual code of a shell for a command that it did not find");
  CHECK(hint({.code = 137}) == "the usual code of a shell for a command killed by SIGKILL");
  CHECK(hint({.code = 73}) ==
        "its work is done, but part of the output could not be written; a restart would repeat all of it");
  CHECK(hint({.code = 3}).empty());
  CHECK(hint({.code = 255}).empty());
}

TEST_CASE("exit codes in files and events are torchrun's", "[exit_status]") {
  CHECK(torchrun_code({.code = 3}) == 3);
  CHECK(torchrun_code({.signal = SIGKILL}) == -9);
  CHECK(torchrun_code({.start_error = ENOENT}) == 1);
}

TEST_CASE("the report is one screen, whatever happened", "[failure_report]") {
  setenv("TZ", "UTC", 1);
  tzset();
  CHECK(test::matches_golden(test::source_folder() + "/tests/agent/testdata/reports.txt", titled_reports()));
}

TEST_CASE("a thousand ranks that failed in consequence fill a few lines, not a screen", "[failure_report]") {
  FailureReport report{{1, 0, 0, 0, {.code = 1}}, "", "h", "p"};
  for (int rank = 1; rank <= 1000; ++rank) report.others.push_back({rank, {.code = 1}});
  CHECK(to_text(report).find("  afterwards: ranks 1-1000 exited with code 1\n") != std::string::npos);
  report.others.clear();
  for (int rank = 1; rank <= 1000; ++rank) report.others.push_back({rank, {.code = 1 + rank % 100}});
  CHECK(to_text(report).size() < 2000);
}

TEST_CASE("a failure in a few words says who, where there are several nodes, how, and where it hung") {
  Failure failure{.rank = 5, .status = {.signal = SIGKILL}, .host = "n1"};
  CHECK(failure_in_words(failure, true) == "rank 5 on n1 was killed by SIGKILL");
  CHECK(failure_in_words(failure, false) == "rank 5 was killed by SIGKILL");
  failure.status = {.hung = true};
  failure.how = "has computed for 9 s";
  failure.place = "model.py:212";
  CHECK(failure_in_words(failure, false) == "rank 5 hung in model.py:212");
}

TEST_CASE("a restart is told in one line that says who failed, how and how late", "[failure_report]") {
  CHECK(headline({2, 0, 1, 5, {.signal = SIGKILL}}, 3210ms) ==
        "rank 5 (local rank 1) was killed by SIGKILL, 3.2 s into round 2");
  CHECK(headline({2, 0, 1, 5, {.start_error = ENOENT}}, 0ms) ==
        "rank 5 (local rank 1) could not be started (No such file or directory) in round 2");
}

TEST_CASE("the first line has the error and its place, where a traceback tells them", "[failure_report]") {
  FailureReport report = report_of({.code = 1});
  report.last_lines = {"  File \"/w/train.py\", line 3, in <module>", "    f()", "KeyError: 'lr'"};
  CHECK(has(to_text(report), " exited with code 1: KeyError: 'lr' (train.py:3).\n"));
  report.failure.status = {.code = -1, .signal = SIGKILL};
  CHECK(has(to_text(report), " was killed by SIGKILL.\n"));  // of an exception that it had logged
  report.failure.status = {.code = 1};
  report.last_lines = {"what is this?"};
  CHECK(has(to_text(report), " exited with code 1.\n"));
}

TEST_CASE("workers that could not begin are three lines, for all that failed alike", "[failure_report]") {
  FailureReport report = report_of({.code = 1});
  report.failure.rank = 1;
  report.failure.cannot_begin = true;
  report.failure.kind = FailureClass::start;
  report.last_lines = {"Traceback (most recent call last):", "  File \"/w/train.py\", line 3, in <module>",
                       "[rank1]: ModuleNotFoundError: No module named 'nonsuch'"};
  report.world_size = 3;
  report.others = {{0, {.code = 1}, true}, {2, {.code = 1}, true}};
  report.log = "logs/rank-1/stderr.log";
  const std::string text = to_text(report);
  CHECK(count(text, "\n") == 3);
  CHECK(has(text, "all 3 ranks exited with code 1: ModuleNotFoundError: No module named 'nonsuch' (train.py:3).\n"));
  CHECK(has(text, "its log is logs/rank-1/stderr.log"));
  CHECK(quotes(text, "Traceback (most recent call last):\nModuleNotFoundError: No module named 'nonsuch'\n"));
  CHECK_FALSE(quotes(text, "Traceback (most recent call last):\nValueError: other\n"));
  report.is_shown = true;
  CHECK(to_text(report) ==
        "ddprun: the job failed: all 3 ranks exited with code 1.\n  class:      start, no restart: "
        "all restarts are used up (3 of 3); its log is logs/rank-1/stderr.log\n");
  report.failure.kind = FailureClass::usage;
  CHECK(to_text(report) ==
        "ddprun: the job failed: all 3 ranks exited with code 1, a usage error: no restart; its log is "
        "logs/rank-1/stderr.log.\n");
  report.failure.kind = FailureClass::start;
  report.is_shown = false;
  report.others.back().alike = false;
  CHECK(has(to_text(report), "ranks 0-1 exited with code 1: "));
  report.last_lines.clear();
  CHECK(has(to_text(report), "rank 1 exited with code 1.\n"));  // without a word: all that is known
}
