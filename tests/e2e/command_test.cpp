#include "tests/support/test.h"

TEST_CASE("the harness sees how a command ends", "[harness]") {
  CHECK(run({"sh", "-c", "exit 3"}, 10s) == exited(3));
  CHECK(run({"sh", "-c", "kill -9 $$"}, 10s) == killed_by(SIGKILL));
  CHECK(run({"cat"}, 10s, {.input = "a word"}).out == "a word");
  CHECK(run({"head", "-c", "3000000", "/dev/zero"}, 10s).out.size() == 3000000);
}

TEST_CASE("the harness finds what a command left behind in another session, and ends it", "[harness]") {
  pid_t left_behind = 0;
  {
    Command command({"sh", "-c", "echo started $WORD; setsid sh -c 'RANK=1 setsid sleep 100 & exit'; sleep 100"},
                    {.env = {{"WORD", "well"}}});
    CHECK(command.wait_for_output("started (\\w+)", 10s).at(1) == "well");
    left_behind = command.wait_for_process("RANK", "1", 10s);
    CHECK(environment_of(left_behind).at("WORD") == "well");
    command.kill(SIGTERM);
    CHECK(command.wait_exit(10s) == killed_by(SIGTERM));
    CHECK_FALSE(command.all_gone(20ms));
  }
  CHECK(eventually([&] { return environment_of(left_behind).empty(); }, 10s));
}

TEST_CASE("the harness gives a command a terminal and types on it", "[harness]") {
  Command command({"sh", "-c", "stty size; trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done"},
                  {.terminal = true});
  command.wait_for_output("24 80", 10s);
  command.wait_for_output("ready", 10s);
  command.type("\x03");
  command.wait_for_output("caught", 10s);
  CHECK(command.wait_exit(10s) == exited(5));
  CHECK(command.all_gone(10s));
}

TEST_CASE("a wait of the harness that fails shows what the command wrote", "[harness]") {
  Command command({"sh", "-c", "echo only this; sleep 100"});
  command.wait_for_output("only", 10s);
  CHECK(error_text([&] { command.wait_for_output("more", 20ms); }).find("only this") != std::string::npos);
  CHECK(error_text([&] { command.wait_exit(20ms); }).find("did not end in 20 ms") != std::string::npos);
}
