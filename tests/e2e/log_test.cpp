// The workers' output on the console and in files.
#include <sys/ioctl.h>

#include "tests/e2e/programs.h"
#include "tests/support/sanitized.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

// Runs workers in a new folder, which is also the one for temporary files.
struct Job {
  TempFolder folder;
  CommandOptions options{.env = {{"TMPDIR", folder.path().string()}, {"NO_COLOR", std::nullopt}}, .cwd = folder.path()};

  Ended run(std::vector<std::string> words, const std::string& script) {
    return ddprun::test::run(shell_job(std::move(words), script), kLimit, options);
  }
  // <log-dir>/latest/round-1/...
  std::string log(const std::string& name) const { return read_file(folder / ("logs/latest/round-1/" + name)); }
};

#if DDPRUN_SANITIZED
constexpr long kMemoryKib = 512 * 1024;               // there freed memory is kept for a while
constexpr int kLines = 10'000, kSoakLines = 100'000;  // everything takes fifty times as long
#else
constexpr long kMemoryKib = 16 * 1024;
constexpr int kLines = 100'000, kSoakLines = 1'000'000;
#endif

long status_value(pid_t pid, const std::string& name) {
  for (const std::string& line : lines_of(read_file("/proc/" + std::to_string(pid) + "/status")))
    if (line.starts_with(name + ":")) return std::atol(line.c_str() + name.size() + 1);
  return 0;
}

long peak_kib(const Command& command, const std::string& program) {
  long peak = 0;
  for (const Process& process : command.processes())
    if (process.command_line.find("/" + program + " ") != std::string::npos)
      peak = std::max(peak, status_value(process.pid, "VmHWM"));
  return peak;
}

// Every rank's lines are all there, complete and in order: "[default3]:rank 3 line 17 abc" for each.
void require_whole(const std::string& text, int workers, int lines_each) {
  std::map<std::string, int> next;
  int bad = 0;
  for (const std::string& line : lines_of(text)) {
    const std::string rank = line.substr(std::min<std::size_t>(line.size(), 8), 1);
    const std::string expected =
        "[default" + rank + "]:rank " + rank + " line " + std::to_string(++next[rank]) + " abcdefghijklmnopqrstuvwxyz";
    if (line != expected && ++bad < 4) FAIL_CHECK("got '" << line << "' where '" << expected << "' belongs");
  }
  REQUIRE(bad == 0);
  REQUIRE(next.size() == static_cast<std::size_t>(workers));
  for (const auto& [rank, lines] : next) REQUIRE(lines == lines_each);
}

}  // namespace

TEST_CASE("tee loses and tears no line of eight workers that write at once", "[log][not-tsan][sanitized]") {
  const int lines = soaking() ? kSoakLines : kLines;
  const std::string where = GENERATE("> out", "| cat > out");
  Series("8 workers tee " + std::to_string(lines) + " lines each, console " +
             (where[0] == '|' ? "through a pipe" : "into a file"),
         1, 1)
      .run([&](std::uint64_t) {
        Job job;
        const std::string script =
            "exec seq -f \"rank $RANK line %.0f abcdefghijklmnopqrstuvwxyz\" " + std::to_string(lines);
        const std::string words =
            kDdprun + " --nproc_per_node=8 --log-dir=logs --tee=3 sh -c '" + script + "' " + where;
        REQUIRE(run({"sh", "-c", words}, 100s, job.options) == exited(0));
        require_whole(read_file(job.folder / "out"), 8, lines);
        const std::string file = job.log("rank-5/stdout.log");
        REQUIRE(std::count(file.begin(), file.end(), '\n') == lines);
      });
}

TEST_CASE("plain stdout of several workers is ddprun's own, as under torchrun: nothing stands between", "[log]") {
  const Ended ended = run(
      {"sh", "-c", "readlink /proc/$$/fd/1; exec " + kDdprun + " --nproc-per-node=3 sh -c 'readlink /proc/$$/fd/1'"},
      kLimit);
  const std::string pipe = ended.out.substr(0, ended.out.find('\n') + 1);
  CHECK(pipe.starts_with("pipe:"));
  CHECK(ended.out == pipe + pipe + pipe + pipe);
}

TEST_CASE("a progress bar is seen while its worker computes", "[log][sanitized]") {
  Job job;
  Command command(shell_job({"--nproc_per_node=2", "--log-dir=logs", "--tee=2"},
                            "[ $RANK = 0 ] || exit 0; printf '\\r10%%' >&2; until [ -e go ]; do sleep 0.01; done; "
                            "printf '\\r20%%\\r30%%\\n' >&2"),
                  job.options);
  command.wait_for_output("0.:10%", kLimit);
  job.folder.write("go", "");
  CHECK(command.wait_exit(kLimit) == exited(0));
  CHECK(command.err() == "[default0]:\r[default0]:10%\r[default0]:20%\r[default0]:30%\n");
  CHECK(job.log("rank-0/stderr.log") == "\r10%\r20%\r30%\n");
}

TEST_CASE("the report shows the last lines of a redirected stderr, and only of this run", "[log]") {
  Job job;
  const std::vector<std::string> words{"--max-restarts=0", "--log-dir=logs", "--rdzv-id=r", "-r2"};
  CHECK(job.run(words, "echo 'an old reason' >&2; exit 1") == exited(1));
  const Ended ended = job.run(words, "seq 30 >&2; echo 'the reason' >&2; exit 1");
  CHECK(ended == exited(1));
  CHECK(has(ended.err, "    | the reason\n"));
  CHECK(has(ended.err, "    | 12\n"));
  CHECK_FALSE(has(ended.err, "    | 11\n"));
  CHECK(has(ended.err, "logs/r/round-1/rank-0/stderr.log\n"));
  const Ended short_one = job.run(words, "echo 'a new reason' >&2; exit 1");
  CHECK(has(short_one.err, "    | a new reason\n"));
  CHECK_FALSE(has(short_one.err, "    | the reason\n"));
}

TEST_CASE("ranks that the console leaves out are silent, yet the report has their last lines", "[log]") {
  Job job;
  const std::string script =
      "echo out $RANK; [ $RANK = 1 ] || { touch printed; exec sleep 60; }; "
      "until [ -e printed ]; do sleep 0.01; done; echo 'the reason' >&2; exit 3";
  const Ended ended = job.run({"--nproc_per_node=2", "--max-restarts=0", "--local-ranks-filter=0"}, script);
  CHECK(ended == exited(1));
  CHECK(ended.out == "out 0\n");
  CHECK(count(ended.err, "the reason\n") == 1);
  CHECK(has(ended.err, "    | the reason\n"));
}

TEST_CASE("a dry run says where the output of a rank goes that is shown and kept nowhere", "[log]") {
  const Ended look = Job().run({"--nproc_per_node=2", "--local-ranks-filter=0", "--dry-run"}, "true");
  CHECK(look == exited(0));
  CHECK(has(look.out, "  stdout      /dev/null\n  stderr      ddprun alone, for its report of a failure\n"));
}

TEST_CASE("logs without a log folder stay in a temporary one, which a terminal is told", "[log]") {
  Job job;
  CHECK(job.run({"--nproc_per_node=2", "--redirects=3"}, "echo out $RANK").err.empty());
  job.options.terminal = true;
  Command told(shell_job({"--nproc_per_node=2", "--redirects=3"}, "echo out $RANK"), job.options);
  const std::string folder = told.wait_for_output("ddprun: the workers' logs are in (\\S+)", kLimit)[1];
  CHECK(told.wait_exit(kLimit) == exited(0));
  CHECK(read_file(folder + "/round-1/rank-0/stdout.log") == "out 0\n");
}

TEST_CASE("prefixes have colours on a terminal alone, and none where NO_COLOR is set", "[log]") {
  Job job;
  const std::vector<std::string> words =
      shell_job({"--nproc_per_node=2", "--log-dir=logs", "--tee=1", "--log-prefix=<${rank} ${role}> ", "--role=tr"},
                "echo out $RANK");
  CHECK(sorted_lines(run(words, kLimit, job.options).out) == std::vector<std::string>{"<0 tr> out 0", "<1 tr> out 1"});
  job.options.terminal = true;
  const Ended coloured = run(words, kLimit, job.options);
  CHECK(has(coloured.out, "\x1b[36m<0 tr> \x1b[0mout 0"));
  CHECK(has(coloured.out, "\x1b[32m<1 tr> \x1b[0mout 1"));
  job.options.env["NO_COLOR"] = "1";
  CHECK_FALSE(has(run(words, kLimit, job.options).out, "\x1b[3"));
}

TEST_CASE("no log file grows beyond --log-size, and full ones are kept as many as asked", "[log][sanitized]") {
  Job job;
  const std::string option = GENERATE("--redirects=1", "--tee=1");
  const Ended ended =
      job.run({"--log-dir=logs", option, "--log-size=10000", "--log-keep=100"}, "seq 20000; printf 'no end'");
  CHECK(ended == exited(0));
  std::string all;
  int files = 0;
  for (; files < 100; ++files) {
    const std::string name = "rank-0/stdout.log" + (files ? "." + std::to_string(files) : "");
    if (job.log(name).empty()) break;
    CHECK(job.log(name).size() <= 10'000);
    all = job.log(name) + all;
  }
  CHECK(files == 11);
  CHECK(all == run({"sh", "-c", "seq 20000; printf 'no end'"}, kLimit).out);
}

TEST_CASE("a full disk costs one warning, and the job goes on", "[log][sanitized]") {
  Job job;  // a limit on file sizes acts like a full disk, but leaves room for the short one
  const Ended ended = run({"sh", "-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh", kDdprun, "--nproc_per_node=2",
                           "--log-dir=logs", "--rdzv-id=r", "--tee=3", "sh", "-c", "seq 10000; echo err >&2"},
                          kLimit, {.cwd = job.folder.path()});
  CHECK(ended == exited(0));
  CHECK(lines_of(ended.out).size() == 20'000);
  CHECK(count(ended.err, "ddprun: ") == 1);
  CHECK(has(ended.err, "/stdout.log: File too large. The job goes on"));
  CHECK(job.log("rank-1/stderr.log") == "err\n");
}

TEST_CASE("a log that cannot be opened costs one warning, and its stream goes to the console", "[log]") {
  Job job;
  fs::create_directories(job.folder / "logs/r/round-1/rank-0/stdout.log");
  job.folder.write("logs/r/round-1/rank-1", "a file where a folder belongs");
  const Ended ended =
      job.run({"--nproc_per_node=2", "--log-dir=logs", "--rdzv-id=r", "--redirects=1"}, "echo out $RANK");
  CHECK(ended == exited(0));
  CHECK(sorted_lines(ended.out) == std::vector<std::string>{"out 0", "out 1"});
  CHECK(count(ended.err, "ddprun: ") == 1);
}

TEST_CASE("a slow reader loses nothing", "[log]") {
  Job job;
  // More than 100 KB remain when the worker has ended, and are read within 3 s: longer than the time-out for a stuck
  // console.
  const std::string reader =
      "while dd bs=4096 count=1 2>/dev/null > piece && [ -s piece ]; do cat piece; sleep 0.05; done";
  const Ended ended = run({"sh", "-c", kDdprun + " --tee=1 --log-dir=logs sh -c 'seq 25000' | (" + reader + ") > out"},
                          kLimit, job.options);
  CHECK(ended == exited(0));
  CHECK(lines_of(read_file(job.folder / "out")).size() == 25'000);
}

TEST_CASE("a console that nobody reads ends the job late, and costs no line of a file", "[log]") {
  Job job;
  const std::string words = kDdprun + " --nproc_per_node=2 --tee=1 --log-dir=logs sh -c 'seq 20000'";
  Command command({"sh", "-c", "(" + words + "; echo $? > code) | until [ -s code ]; do sleep 0.02; done"},
                  job.options);
  CHECK(command.wait_exit(kLimit) == exited(0));
  CHECK(read_file(job.folder / "code") == "0\n");
  for (const char* rank : {"rank-0", "rank-1"})
    CHECK(lines_of(read_file(job.folder / "logs/latest/round-1" / rank / "stdout.log")).size() == 20'000);
}

TEST_CASE("a console that nobody reads holds up only those who write to it", "[log][sanitized]") {
  Job job;
  const std::string words = kDdprun +
                            " --nproc_per_node=2 --tee=0:1 --redirects=1:1 --log-size=10000000 --log-dir=logs "
                            "sh -c 'seq 300000'";
  Command command({"sh", "-c", words + " | { until [ -e go ]; do sleep 0.02; done; cat > out; }"}, job.options);
  CHECK(eventually([&] { return has(job.log("rank-1/stdout.log"), "\n300000\n"); }, kLimit));
  CHECK_FALSE(has(job.log("rank-0/stdout.log"), "\n300000\n"));
  job.folder.write("go", "");
  CHECK(command.wait_exit(kLimit) == exited(0));
  CHECK(lines_of(read_file(job.folder / "out")).size() == 300'000);
}

TEST_CASE("workers learn that the terminal has another size", "[log]") {
  Job job;
  job.options.terminal = true;
  Command command(shell_job({"--nproc_per_node=2"},
                            "trap 'echo size $(stty size <&2)' WINCH; echo up with $(stty size <&2); "
                            "until [ -e done ]; do sleep 0.02; done"),
                  job.options);
  command.wait_for_output("up with 24 80[^]*up with 24 80", kLimit);
  const winsize size{.ws_row = 33, .ws_col = 111, .ws_xpixel = 0, .ws_ypixel = 0};
  const int terminal = ::open(("/proc/" + std::to_string(command.pid()) + "/fd/0").c_str(), O_RDWR | O_NOCTTY);
  REQUIRE(ioctl(terminal, TIOCSWINSZ, &size) == 0);
  close(terminal);
  command.wait_for_output("size 33 111[^]*size 33 111", kLimit);
  job.folder.write("done", "");
  CHECK(command.wait_exit(kLimit) == exited(0));
}

TEST_CASE("the memory of ddprun stays small, however fast workers write and however slow the console is",
          "[log][release-only]") {
  Job job;
  // Empty lines, which prefixes make long, and a line that never ends.
  const std::string script = "if [ $((RANK % 2)) = 0 ]; then exec yes ''; else exec tr '\\0' x < /dev/zero; fi";
  const std::string words = kDdprun + " --nproc_per_node=8 --tee=1 --log-dir=/dev/null sh -c \"$1\"";
  Command command(
      {"sh", "-c", words + " | { head -c 20000000 > out; until [ -e go ]; do sleep 0.02; done; }", "sh", script},
      job.options);
  REQUIRE(eventually([&] { return fs::exists(job.folder / "out") && fs::file_size(job.folder / "out") == 20'000'000; },
                     kLimit));
  CHECK(peak_kib(command, "ddprun") < kMemoryKib);
}
