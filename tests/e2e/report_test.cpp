// How ddprun reports a failed job: to people, to other programs, to the launcher above it.
#include <nlohmann/json.hpp>

#include "agent/diagnosis/oom_count.h"
#include "tests/e2e/control_groups.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

using Json = nlohmann::json;

namespace {

constexpr auto kPythonLimit = 180s;  // to import torch on a busy machine

std::vector<std::string> job(std::vector<std::string> options, const std::vector<std::string>& program) {
  options.insert(options.end(), program.begin(), program.end());
  return job_of(std::move(options));
}

std::vector<std::string> once(const std::vector<std::string>& program) { return job({"--max-restarts=0"}, program); }

std::string report_of(const std::vector<std::string>& program, const TempFolder& folder) {
  const Ended ended = run(once(program), kLimit, {.cwd = folder.path()});
  CHECK(ended == exited(1));
  return unbroken(ended.err);
}

// /bin/true with some of its bytes changed.
std::string changed_program(const TempFolder& folder, const std::string& from, const std::string& to) {
  std::string bytes = read_file("/bin/true");
  const auto at = bytes.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(from.size() == to.size());
  bytes.replace(at, from.size(), to);
  folder.write("changed", bytes, true);
  return "./changed";
}

bool cores_are_files() { return !read_file("/proc/sys/kernel/core_pattern").starts_with("|"); }

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Writes a timer request as torchrun's client does, then hangs; ignores SIGTERM if requested.
std::string timer_script(const std::string& signal, const std::string& before = "") {
  return before +
         "echo \"{\\\"version\\\": 1, \\\"pid\\\": $$, \\\"scope_id\\\": \\\"step\\\", \\\"expiration_time\\\": " +
         std::to_string(now() + 0.3) + ", \\\"signal\\\": " + signal +
         "}\" > $TORCHELASTIC_TIMER_FILE; while :; do sleep 0.1; done";
}

}  // namespace

TEST_CASE("the report names rank, host, time, end and last lines, and tells followers from those ddprun stopped",
          "[fast]") {
  const TempFolder folder;
  const Ended ended = run(job({"--nproc_per_node=4", "--max-restarts=0", "--log-dir=logs"},
                              {"sh", "-c",
                               "case $RANK in "
                               "1) for i in $(seq 1 30); do echo line $i >&2; done; "
                               "until [ -e up0 ] && [ -e up2 ] && [ -e up3 ]; do :; done; exit 7;; "
                               "2) trap 'exit 5' TERM; touch up2; while :; do sleep 0.05; done;; "
                               "*) touch up$RANK; sleep 60;; esac"}),
                          kLimit, {.cwd = folder.path()});
  CHECK(ended == exited(1));
  const std::string report = ended.err.substr(ended.err.find("ddprun: the job failed"));
  CHECK(has(report, "ddprun: the job failed: rank 1 exited with code 7.\n"));
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  CHECK(has(report, std::string("  where:      ") + host + ", pid "));
  CHECK(has(report, " s after its start, in round 1\n"));
  CHECK(has(report, "  afterwards: rank 2 exited with code 5\n"));
  CHECK(has(report, "  stopped:    2 other workers, by ddprun\n"));
  CHECK(has(report, "/round-1/rank-1/stderr.log\n"));
  CHECK_FALSE(has(report, "| line 10\n"));
  CHECK(has(report, "    | line 11\n"));
  CHECK(has(report, "    | line 30\n"));
}

TEST_CASE("a worker that the kernel killed for memory is reported so, with the limit") {
  const SmallGroup group(512 << 20);  // enough for a sanitized ddprun
  if (skipped_if(!group.usable(), "no memory control group can be made here")) return;
  const Ended ended = run({"sh", "-c",
                           "echo $$ > " + group.processes() + " && exec " + ddprun_program() +
                               " --max-restarts=0 dd if=/dev/zero of=/dev/null bs=2G count=1"},
                          kLimit);
  CHECK(ended == exited(1));
  const std::string report = unbroken(ended.err);
  INFO(report);
  CHECK(has(report, "was killed by SIGKILL. "));
  CHECK_FALSE(has(report, "outside"));
  CHECK(has(report, " class: out-of-memory "));
  CHECK(has(report, "memory ran out: the kernel killed processes for lack of memory in control group /"));
  CHECK(has(report, "rose from 0 to 1): the group may use 512 MiB"));
}

TEST_CASE("a worker that was killed by a signal is not taken for one that ran out of memory") {
  const TempFolder folder;
  const std::string report = report_of({"sh", "-c", "kill -KILL $$"}, folder);
  CHECK(has(report, "was killed by SIGKILL. "));
  CHECK_FALSE(has(report, "memory ran out"));
}

TEST_CASE("a failed script that sets a variable of ddprun's is told by its line, and a healthy one is not") {
  const TempFolder folder;
  const auto report = [&](const std::string& end) {
    folder.write("sets.py", "import os, sys\nos.environ['MASTER_PORT'] = '29500'\n" + end);
    return run(job_of({"--max-restarts=0", "sets.py"}), kLimit, {.cwd = folder.path()}).err;
  };
  CHECK(has(unbroken(report("print('connection lost', file=sys.stderr); sys.exit(3)\n")),
            "sets.py:2 sets MASTER_PORT, which ddprun had set for this worker: that may be why"));
  CHECK_FALSE(has(report("print(1 / 0)\n"), "MASTER_PORT"));
  CHECK(report("").empty());
}

TEST_CASE("after an out-of-memory kill snapshots in memory are given back, and after another kill they stay") {
  const SmallGroup group(std::uint64_t{256} << 20);
  if (skipped_if(!group.usable(), "no control group with a limit of memory can be made here")) return;
  // The second round says how many MiB it finds in the memory, in which the first one has written 8.
  const std::string script =
      "fd=/proc/self/fd/${DDPRUN_SNAPSHOT_MEMORY%%:*}; "
      "[ $DDPRUN_ROUND = 2 ] && exec stat -L -c %b $fd; "
      "dd if=/dev/zero of=$fd bs=1M count=8 seek=1 conv=notrunc 2>&-; ";
  for (const bool by_kernel : {true, false}) {
    const std::string end = by_kernel ? "exec dd if=/dev/zero of=/dev/null bs=1G count=1" : "kill -9 $$";
    const Ended ended = run(joined({{"sh", "-c", "echo $$ >\"$0\" && exec \"$@\"", group.processes()},
                                    job({"--max-restarts=1", "--memory-snapshots=64M"}, {"sh", "-c", script + end})}),
                            kLimit);
    CHECK(ended == exited(0));
    INFO(ended.out + ended.err);
    CHECK(has(unbroken(ended.err), "hold snapshots (--memory-snapshots); they are given back") == by_kernel);
    CHECK((std::atoi(ended.out.c_str()) < 8 * 2048) == by_kernel);
  }
}

TEST_CASE("a crash's core file is named where there is one, and how to get one where there is none") {
  if (skipped_if(!cores_are_files(), "this machine passes core files to a program")) return;
  const TempFolder folder;
  CHECK(has(report_of({"sh", "-c", "kill -SEGV $$"}, folder), "core: none, because workers start with a core limit"));
  const Ended limits = run({"sh", "-c", "ulimit -c unlimited"}, kLimit);
  if (skipped_if(limits.code != 0, "no core files are allowed here")) return;
  const std::string report = report_of({"sh", "-c", "ulimit -c unlimited; kill -SEGV $$"}, folder);
  CHECK(has(report, "was killed by SIGSEGV. "));
  CHECK(has(report, "core: "));
  CHECK_FALSE(has(report, "core: none"));
}

namespace {

// A shell function that writes a traceback with its arguments in the last line.
const std::string kTraceback =
    "tb() { printf 'Traceback (most recent call last):\\n  File \"t.py\", line 1, in f\\nNameError: %s\\n' \"$*\" >&2; "
    "}; ";

}  // namespace

TEST_CASE("a broken script's traceback is shown once, in the report, whatever number of ranks and rounds had it") {
  const Ended ended = run(shell_job({"--nproc_per_node=2"}, kTraceback + "tb no x; exit 1"), kLimit);
  CHECK(ended == exited(1));
  CHECK(has(ended.err, "the same failure twice"));
  CHECK(count(ended.err, "| Traceback") == 1);
  CHECK(count(ended.err, "Traceback") == 2);  // the program's arguments are shown, too
  CHECK(has(ended.err, " s into round 1: NameError: no x; restart 1 of 3 (--max-restarts 0: none).\n"));
  CHECK(has(ended.err,
            "    | Traceback (most recent call last):\n    |   File \"t.py\", line 1, in f\n    | NameError: no x\n"));
}

TEST_CASE("a traceback after which the worker goes on is shown while it does, and one of an earlier round by the end",
          "[sanitized]") {
  Command job(shell_job({}, kTraceback + "tb tried; echo went on >&2; while :; do sleep 0.02; done"));
  job.wait_for_output("NameError: tried\nwent on", kLimit);
  job.kill(SIGTERM);
  CHECK(job.wait_exit(kLimit) == exited(143));
  const Ended ended = run(shell_job({}, kTraceback + "[ $DDPRUN_ROUND = 2 ] || { tb first; exit 1; }"), kLimit);
  CHECK(ended == exited(0));
  CHECK(count(ended.err, "NameError: first\n") == 1);
}

TEST_CASE("a missing shared library, module or command is named with its remedy") {
  const TempFolder folder;
  folder.write("script", "#!/usr/bin/pythn\n", true);
  CHECK(has(report_of({"./script"}, folder), "asks for the interpreter /usr/bin/pythn, which is not there"));
  CHECK(has(report_of({changed_program(folder, "libc.so.6", "libX.so.6")}, folder),
            "the shared library libX.so.6 is not found: install it"));
  CHECK(has(report_of({"sh", "-c", "nonsuch-command"}, folder), "the command nonsuch-command is not found"));
  CHECK(has(report_of({"python3", "-m", "nonsuch_module"}, folder), "the module nonsuch_module is not found"));
  CHECK(has(report_of({"python3", "-c", "import nonsuch_module"}, folder), "the module nonsuch_module is not found"));
}

TEST_CASE("an error file is shown with its time, a broken one as text, and neither stops the report", "[sanitized]") {
  const TempFolder folder;
  const std::string recorded =
      R"({"message": {"message": "E: boom", "extraInfo": {"py_callstack": "Traceback of boom", "timestamp": "17"}}})";
  const std::string report =
      report_of({"sh", "-c", "echo '" + recorded + "' > $TORCHELASTIC_ERROR_FILE; exit 3"}, folder);
  CHECK(has(report, "its error file says, at 1970-01-01 "));
  CHECK(has(report, "| Traceback of boom"));
  CHECK(has(report_of({"sh", "-c", "echo '{\"message\": {\"mess' > $TORCHELASTIC_ERROR_FILE; exit 3"}, folder),
            "| {\"message\": {\"mess"));
  CHECK(has(report_of({"sh", "-c", "head -c 9000000 /dev/urandom > $TORCHELASTIC_ERROR_FILE; exit 3"}, folder),
            "its error file says: "));
  CHECK(has(report_of({"sh", "-c", "mkfifo $TORCHELASTIC_ERROR_FILE; exit 3"}, folder), "exited with code 3."));
}

TEST_CASE("a worker whose file timer runs out has failed, and the job restarts with a fresh timer pipe",
          "[sanitized]") {
  const Ended ended =
      run(job({"--nproc_per_node=2"}, {"sh", "-c",
                                       "echo pipe $TORCHELASTIC_TIMER_FILE; [ -p $TORCHELASTIC_TIMER_FILE ] || exit 8; "
                                       "[ $DDPRUN_ROUND = 2 ] && exit 0; [ $RANK = 0 ] && sleep 60; " +
                                           timer_script("9")}),
          kLimit, {.env = {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}}});
  CHECK(ended == exited(0));
  CHECK(has(ended.err, "rank 1 was killed by SIGKILL"));
  std::set<std::string> pipes;
  for (const std::string& line : lines_of(ended.out)) pipes.insert(line);
  CHECK(pipes.size() == 2);
  for (const std::string& pipe : pipes) CHECK_FALSE(fs::exists(pipe.substr(5)));
}

TEST_CASE("an expired timer is that worker's failure whatever its signal does, and the report says so") {
  for (const char* trap : {"trap '' USR1; ", "trap 'exit 0' USR1; "}) {
    const Ended ended =
        run(once({"sh", "-c", timer_script("10", trap)}), kLimit, {.env = {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}}});
    CHECK(ended == exited(1));
    const std::string report = unbroken(ended.err);
    CHECK(has(report, "rank 0 was killed by SIGUSR1."));
    CHECK(has(report, "its timer 'step' expired after 0."));
    CHECK(has(report, "it was sent SIGUSR1"));
  }
}

TEST_CASE("the timer pipe lies where TORCHELASTIC_TIMER_FILE says, and no other file is removed for it") {
  const TempFolder folder;
  const std::string path = folder / "timers";
  const CommandOptions options{.env = {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}, {"TORCHELASTIC_TIMER_FILE", path}}};
  CHECK(run(once({"sh", "-c", "[ -p " + path + " ]"}), kLimit, options) == exited(0));
  CHECK_FALSE(fs::exists(path));
  folder.write("timers", "precious");
  const Ended refused = run(once({"true"}), kLimit, options);
  CHECK(refused == exited(2));
  CHECK(has(refused.err, "ddprun: cannot make the timer pipe " + path + ": the file there is not a pipe"));
  CHECK(read_file(path) == "precious");
}

TEST_CASE("torch's own file timer client is served, its expiry is the worker's failure") {
  if (skipped_if(!fs::exists(torch_python()) && !std::getenv("PYTHON_EXEC"), "no Python with torch here")) return;
  const Ended ended = run(once({torch_python(), source_folder() + "/tests/e2e/file_timer_worker.py", "0.5", "SIGKILL"}),
                          kPythonLimit, {.env = {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}}});
  CHECK(ended == exited(1));
  CHECK(has(ended.out, "armed\n"));
  CHECK(has(unbroken(ended.err), "its timer 'step' expired after 0.5 s; as it had requested, it was sent SIGKILL"));
}

TEST_CASE("events go to a file or to the console, and an event log that cannot be had stops the job before it starts",
          "[fast]") {
  const TempFolder folder;
  const auto with = [&](const std::string& handler) {
    return run(
        job({"--event-log-handler=" + handler, "--rdzv-id=seven", "--role=trainer"}, {"sh", "-c", "echo started"}),
        kLimit);
  };
  CHECK(with("file:" + (folder / "events").string()) == exited(0));
  std::string states;
  for (const std::string& line : lines_of(read_file(folder / "events"))) {
    const Json event = Json::parse(line);
    CHECK(event["metadata"]["run_id"] == "seven");
    CHECK(event["metadata"]["role"] == "trainer");
    states += event["metadata"]["state"].get<std::string>() + " ";
  }
  CHECK(states == "RENDEZVOUS ASSIGN_WORKER_RANKS START SUCCEEDED SUCCEEDED ");
  const Ended console = with("console");
  CHECK(std::count(console.err.begin(), console.err.end(), '\n') == 5);
  CHECK(Json::parse(console.err.substr(0, console.err.find('\n')))["name"] == "torchelastic.worker.status.RENDEZVOUS");
  const Ended refused = with("file:/nonsuch/events");
  CHECK(refused == exited(2));
  CHECK(refused.out.empty());
  CHECK(has(refused.err, "ddprun: cannot open the event log /nonsuch/events: No such file or directory."));
}

TEST_CASE("torch's own event class reads ddprun's events") {
  if (skipped_if(!fs::exists(torch_python()) && !std::getenv("PYTHON_EXEC"), "no Python with torch here")) return;
  const TempFolder folder;
  const std::string log = folder / "events";
  CHECK(run(job({"--event-log-handler=file:" + log}, {"true"}), kLimit) == exited(0));
  const Ended read = run({torch_python(), "-c",
                          "import sys\nfrom torch.distributed.elastic.events import Event\n"
                          "for line in open(sys.argv[1]):\n"
                          "    e = Event.deserialize(line)\n    print(e.name, e.source.name, e.metadata['state'])\n",
                          log},
                         kPythonLimit);
  CHECK(has(read.out, "torchelastic.worker.status.START WORKER START\n"));
}

TEST_CASE("a program that starts ddprun reads in a file how the job ended") {
  const TempFolder folder;
  const auto end_of = [&](std::vector<std::string> argv) {
    fs::remove(folder / "end");
    Command command(std::move(argv), {.env = {{"DDPRUN_END_FILE", (folder / "end").string()}}});
    const Ended ended = command.wait_exit(kLimit);
    const Json end = Json::parse(read_file(folder / "end"));
    CHECK(end["exit_code"] == ended.code);
    if (!end["message"].get<std::string>().empty())
      CHECK(has(ended.err, "ddprun: " + end["message"].get<std::string>()));  // repeated on stderr
    return end;
  };
  CHECK(end_of(once({"sh", "-c", "[ -z \"$DDPRUN_END_FILE\" ]"})) ==
        Json{{"exit_code", 0}, {"message", ""}, {"first_failure", nullptr}});
  const Json failed = end_of(job({"--nproc-per-node=2"}, {"sh", "-c", "[ $RANK = 0 ] || kill -9 $$; sleep 100"}));
  const auto report = failed["message"].get<std::string>();
  CHECK(report.starts_with("the job failed: rank 1"));
  CHECK(has(report, "SIGKILL"));
  CHECK(failed["first_failure"]["global_rank"] == 1);
  CHECK(failed["first_failure"]["local_rank"] == 1);
  CHECK(failed["first_failure"]["exit_code"] == -9);
  const Json mistaken = end_of(job({"--no-such-option"}, {"true"}));
  CHECK(mistaken["exit_code"] == 2);
  CHECK(has(mistaken["message"].get<std::string>(), "--no-such-option"));
  CHECK(mistaken["first_failure"].is_null());
  const Json missing = end_of(once({"/no/such/program"}));
  CHECK(missing["exit_code"] == 2);
  CHECK(has(missing["message"].get<std::string>(), "/no/such/program"));
}

TEST_CASE("a job that was interrupted says so in the file of its end, and one that cannot be written is named") {
  const TempFolder folder;
  Command command(once({"sh", "-c", "echo up; sleep 100"}), {.env = {{"DDPRUN_END_FILE", (folder / "end").string()}}});
  command.wait_for_output("up", kLimit);
  command.kill(SIGTERM);
  CHECK(command.wait_exit(kLimit).code == 128 + SIGTERM);
  CHECK(Json::parse(read_file(folder / "end")) ==
        Json{{"exit_code", 143}, {"message", "the job was interrupted by SIGTERM."}, {"first_failure", nullptr}});
  Command nowhere(once({"true"}), {.env = {{"DDPRUN_END_FILE", "/no/such/folder/end"}}});
  const Ended ended = nowhere.wait_exit(kLimit);
  CHECK(ended == exited(0));
  CHECK(ended.err == "ddprun: cannot write /no/such/folder/end (DDPRUN_END_FILE): No such file or directory.\n");
}

TEST_CASE("a job that goes well leaves ddprun silent on a pipe, and at most two lines on a terminal") {
  CHECK(run(once({"true"}), kLimit).err.empty());
  Command on_terminal(once({"true"}), {.terminal = true});
  const Ended ended = on_terminal.wait_exit(kLimit);
  CHECK(ended == exited(0));
  CHECK(std::count(ended.out.begin(), ended.out.end(), '\n') <= 2);
}

TEST_CASE("nothing that a worker wrote acts on the terminal that shows the report") {
  const TempFolder folder;
  const std::string escape = "\\033]0;title\\007 \\302\\23331m \\23331m";  // in printf's syntax
  for (const std::string& line :
       {"x: error while loading shared libraries: lib" + escape + ": cannot open shared object file",
        "sh: 1: cmd" + escape + ": not found", "No module named '" + escape + "'"}) {
    const Ended ended = run(once({"sh", "-c", "printf \"" + line + "\\n\" >&2; exit 127"}), kLimit,
                            {.env = {{"LC_ALL", "C.UTF-8"}}, .cwd = folder.path()});
    CHECK(ended == exited(1));
    const std::string report = ended.err.substr(ended.err.find("ddprun: "));  // after the worker's own line
    CHECK(has(report, "meaning:"));
    for (const char* acts : {"\x1b", "\x07", "\xc2\x9b", " \x9b"}) CHECK_FALSE(has(report, acts));
  }
}

TEST_CASE("a program's name acts on no terminal") {
  const TempFolder folder;
  const std::string name = "a\x1b[31m\nddprun: b\xc2\x9b";
  folder.write(name, "#!/bin/sh\nexit 3\n", true);
  const Ended ended = run(once({(folder / name).string()}), kLimit, {.cwd = folder.path()});
  CHECK(ended == exited(1));
  CHECK(has(ended.err, R"(/a\x1b[31m\x0addprun: b\xc2\x9b)"));
  CHECK_FALSE(has(ended.err, "\x1b"));
  const Ended look = run(job({"--dry-run"}, {(folder / name).string()}), kLimit);
  CHECK(look == exited(0));
  CHECK_FALSE(has(look.out, "\x1b"));
}
