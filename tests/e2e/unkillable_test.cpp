// Workers that SIGKILL does not end: they sleep in a file system whose server does not answer.
#include "tests/e2e/programs.h"
#include "tests/e2e/stuck_folder.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"

namespace {

std::vector<std::string> words(int port, const char* nodes, const char* is_host) {
  return {std::string("--nnodes=") + nodes,
          "--rdzv-backend=c10d",
          "--rdzv-endpoint=localhost:" + std::to_string(port),
          "--rdzv-id=job",
          "--stop-grace=1",
          std::string("--rdzv-conf=join_timeout=13,is_host=") + is_host};
}

// Its worker sleeps in the file system.
bool is_stuck(Command& node) {
  const auto stuck = [](const Process& one) {
    return has(one.command_line, "cat ") && has(read_file("/proc/" + std::to_string(one.pid) + "/stat"), "(cat) S ");
  };
  return eventually(
      [&] {
        const auto workers = node.processes("LOCAL_RANK", "0");
        return std::any_of(workers.begin(), workers.end(), stuck);
      },
      kLimit);
}

// Sleeps in the file system until it answers; after that, like any other.
const std::string kStuck =
    "echo \"up $DDPRUN_ROUND/$WORLD_SIZE\"; [ -e answers ] || { env -u LOCAL_RANK MARK=child setsid sleep 600 & exec "
    "cat stuck/file; }; "
    "while [ ! -e go ]; do sleep 0.02; done";
// Fails once.
const std::string kFails =
    "echo \"up $DDPRUN_ROUND/$WORLD_SIZE\"; while [ ! -e go ]; do [ $DDPRUN_ROUND = 1 ] && [ -e fail ] && exit 3; "
    "sleep "
    "0.02; done";

}  // namespace

TEST_CASE("a node whose worker SIGKILL does not end holds up nobody, and joins again when it is gone",
          "[unkillable][nodes]") {
  StuckFolder stuck;
  if (skipped_if(!stuck.mounted(), "no file system can be mounted here")) return;
  const int port = free_port();
  const CommandOptions options{.cwd = stuck.folder()};
  Command host(shell_job(words(port, "2:3", "true"), kFails), options);
  Command second(shell_job(words(port, "2:3", "false"), kFails), options);
  Command third(shell_job(words(port, "2:3", "false"), kStuck), options);
  for (Command* node : {&host, &second, &third}) node->wait_for_output("up 1/3", kLimit);
  REQUIRE(is_stuck(third));
  third.wait_for_process("MARK", "child", kLimit);
  stuck.write("fail");

  third.wait_for_output(
      "rank \\d \\(process \\d+\\) is still there after SIGKILL: .* This node is in no round until it is gone", kLimit);
  for (Command* node : {&host, &second}) node->wait_for_output("up 2/2", kLimit);
  CHECK(third.processes("MARK", "child").empty());  // also in a session of its own it would go on beside round 2
  CHECK_FALSE(has(third.out(), "up 2/"));

  stuck.write("answers");
  stuck.answer();
  for (Command* node : {&host, &second, &third}) node->wait_for_output("up 3/3", kLimit);
  stuck.write("go");
  for (Command* node : {&host, &second, &third}) CHECK(node->wait_exit(kLimit) == exited(0));
}

TEST_CASE("a job that needs the node whose worker SIGKILL does not end says so, and ends to be requeued",
          "[unkillable][nodes]") {
  StuckFolder stuck;
  if (skipped_if(!stuck.mounted(), "no file system can be mounted here")) return;
  const int port = free_port();
  const CommandOptions options{.cwd = stuck.folder()};
  Command host(shell_job(words(port, "2", "true"), kFails), options);
  Command second(shell_job(words(port, "2", "false"), kStuck), options);
  for (Command* node : {&host, &second}) node->wait_for_output("up 1/2", kLimit);
  REQUIRE(is_stuck(second));
  stuck.write("fail");
  host.wait_for_output("\\(unkillable: rank \\d \\(process \\d+\\)\\)", kLimit);
  CHECK(host.wait_exit(kLimit) == exited(75));
  stuck.answer();
  CHECK(second.wait_exit(kLimit) == exited(75));
}
