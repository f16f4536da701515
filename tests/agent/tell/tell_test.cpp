// What people are told goes to a file in place of stderr.
#include "agent/tell/tell.h"

#include "tests/support/test.h"

namespace {

struct StderrTo {
  explicit StderrTo(const fs::path& file) {
    const Fd to(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    REQUIRE(dup2(to.get(), STDERR_FILENO) == STDERR_FILENO);
  }
  ~StderrTo() { dup2(before.get(), STDERR_FILENO); }
  const Fd before{fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10)};
};

Tell::Options of_two_nodes(bool tells_page) {
  return {.reporter = {.host = "n1"}, .alone = false, .tells_page = tells_page};
}

struct Rig {
  // Its worker, rank 3, is a program that is not there.
  void begin(int round) {
    const Seat seat{.round = round, .workers = 1, .first_rank = 3};
    bool ready = false;
    workers.prepare_files(seat, [&] { ready = true; });
    REQUIRE(eventually([&] { return io.restart(), io.poll(), ready; }, 20s));
    workers.begin(seat);
    REQUIRE(workers.start({.program = (folder / "missing").string(), .argv = {"missing"}}, 0) == ENOENT);
  }
  // What rank 3 had printed when it failed.
  WorkerFailed fail(ExitStatus status, std::optional<bool> progressed = {},
                    const std::optional<OutputWatch::Finding>& found = {}) {
    const Failure failure{.round = 1, .rank = 3, .status = status};
    Fd end = pipes.open({.round = 1, .rank = 3, .remember_tail = true});
    REQUIRE(write(end.get(), "[rank3]: NCCL is lost\n", 22) == 22);
    end = {};
    tell.reporter().noticed(failure);
    return tell.failures().describe(failure, {progressed, /*lived=*/true}, found);
  }
  std::string said() {
    CHECK(pipes.drain(20s));
    return read_file(folder / "stderr");
  }

  TempFolder folder;
  StderrTo stderr_to{folder / "stderr"};
  asio::io_context io;
  LogOptions logs{.log_dir = folder / "logs"};
  LogPipes pipes;
  LogLayout layout{logs, "run-7"};
  WorkerGroup workers{io, {logs, layout, pipes}, {}, {.on_end = [] {}}};
  Tell tell{io,
            pipes,
            layout,
            workers,
            {.event_log = "file:" + (folder / "events").string(),
             .rules = {{.signals = {SIGSEGV}, .action = RuleAction::stop, .place = "crash"},
                       {.pattern = "NCCL", .action = RuleAction::requeue, .place = "NCCL"}}},
            {}};
};

}  // namespace

TEST_CASE("a failure is told with its class, its rule, and its last line if nobody reports progress", "[tell]") {
  Rig rig;
  const WorkerFailed silent = rig.fail({.code = 1});
  CHECK(silent.failure.kind == FailureClass::error);
  CHECK(silent.failure.last_line == "NCCL is lost");
  CHECK(silent.rule->place == "NCCL");
  CHECK(rig.fail({.code = 1}, false).failure.last_line.empty());
  const WorkerFailed crashed = rig.fail({.signal = SIGSEGV});
  CHECK(crashed.failure.kind == FailureClass::crash);
  CHECK(crashed.failure.last_line.empty());
  CHECK(crashed.rule->place == "crash");
  CHECK(rig.tell.failures().last()->status.signal == SIGSEGV);
}

TEST_CASE("the rule about output that gave a worker up is the failure's, and silence is a hang", "[tell]") {
  Rig rig;
  OutputWatch::Finding found{0, {.pattern = "loss", .place = "loss"}};
  const WorkerFailed by_line = rig.fail({.by_output = true}, {}, found);
  CHECK(by_line.failure.kind == FailureClass::error);
  CHECK(by_line.rule->place == "loss");
  found.rule.silent = 5min;
  CHECK(rig.fail({.by_output = true}, {}, found).failure.kind == FailureClass::hang);
  const WorkerFailed other = rig.fail({.code = 1}, {}, found);  // it failed by itself meanwhile
  CHECK(other.failure.kind == FailureClass::error);
  CHECK(other.rule->place == "NCCL");
}

TEST_CASE("a round's end is told with the failure here, if it is that round's, and is an event in any case", "[tell]") {
  Rig rig;
  rig.begin(1);
  rig.fail({.start_error = ENOENT});
  rig.tell.round_ended({.round = 1, .reason = "restart 1 of 3"}, {});
  CHECK(has(rig.said(), "ddprun: rank 3 (local rank 0) could not be started"));
  CHECK(has(rig.said(), "; restart 1 of 3 (--max-restarts 0: none).\n"));
  rig.begin(2);
  rig.tell.round_ended({.round = 2, .planned = true, .reason = "node3 joins"}, {});
  CHECK(has(rig.said(), "ddprun: node3 joins: a new round begins.\n"));
  for (int i = 0; i < 2; ++i) rig.tell.keep_stacks({0}, {{.pid = 70, .missing = "it has ended"}});
  CHECK(rig.tell.files_written(20s));
  CHECK(count(read_file(rig.folder / "events"), "status.ROUND_ENDED") == 2);
  CHECK(count(read_file(rig.folder / "logs/run-7/round-2/rank-3/stacks.txt"), "it has ended") == 2);
}

TEST_CASE("the page's address is one that a browser can reach, and of several nodes one says it", "[tell][page]") {
  const auto place = [](const char* address, bool sits_elsewhere, bool https = false) {
    return page_place(https, address, 38411, "n1", sits_elsewhere);
  };
  CHECK(place("127.0.0.1", false) == "http://localhost:38411/");
  CHECK(place("127.0.0.1", true) == "http://localhost:38411/ on n1; from elsewhere: ssh -L 38411:localhost:38411 n1");
  CHECK(place("::1", true) == "http://[::1]:38411/ on n1; from elsewhere: ssh -L 38411:[::1]:38411 n1");
  CHECK(place("10.0.0.4", true) == "http://10.0.0.4:38411/");
  for (const char* any : {"0.0.0.0", "::"}) CHECK(place(any, false) == "http://n1:38411/");
  CHECK(place("0.0.0.0", true, /*https=*/true) == "https://n1:38411/");

  Rig rig;
  for (const bool tells_page : {true, false})
    Tell(rig.io, rig.pipes, rig.layout, rig.workers, of_two_nodes(tells_page), {})
        .http_is_at(/*page=*/true, /*https=*/false, "127.0.0.1", tells_page ? 1 : 2);
  CHECK(rig.said() == "ddprun: page: http://localhost:1/ on n1; from elsewhere: ssh -L 1:localhost:1 n1\n");
}
