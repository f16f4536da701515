// How launch() calls ddprun, and what it reads from ddprun's words.
#include "trainer/ddp/launch/launch_plan.h"

#include <nlohmann/json.hpp>

#include "tests/support/test.h"

using Texts = std::vector<std::string>;

TEST_CASE("a launch becomes a command line of ddprun", "[launch]") {
  CHECK(launcher_command("/bin/ddprun", {.processes_per_machine = 4}, "/a/program", {"--lr", "0.1"}) ==
        Texts{"/bin/ddprun", "--nproc-per-node=4", "--nnodes=1", "--node-rank=0", "--max-restarts=0", "--stop-grace=25",
              "--standalone", "--no-python", "/a/program", "--lr", "0.1"});
  const LaunchOptions several{.machines = 2,
                              .machine_rank = 1,
                              .dist_url = "tcp://[::1]:29400",
                              .stop_grace = 5s,
                              .max_restarts = 3,
                              .ddprun_arguments = {"--tee=3"}};
  CHECK(launcher_command("/bin/ddprun", several, "/a/program", {}) ==
        Texts{"/bin/ddprun", "--nproc-per-node=1", "--nnodes=2", "--node-rank=1", "--max-restarts=3", "--stop-grace=5",
              "--master-addr=::1", "--master-port=29400", "--tee=3", "--no-python", "/a/program"});
}

TEST_CASE("options of a launch that cannot be are sentences, all at once", "[launch]") {
  CHECK(problems(LaunchOptions{}).empty());
  CHECK(problems({.machines = 2, .machine_rank = 1, .dist_url = "tcp://a:1", .timeout = 1ms}).empty());
  CHECK(problems({.processes_per_machine = 0,
                  .machines = 2,
                  .machine_rank = 2,
                  .timeout = 0ms,
                  .stop_grace = -1s,
                  .max_restarts = -1,
                  .ddprun_arguments = {"--tee", "3", "--"}}) ==
        Texts{"processes_per_machine is 0 but must be from 1 to 4096.", "machine_rank is 2 but must be from 0 to 1.",
              "max_restarts is -1 but must be from 0 to 1048576.", "timeout must be above 0.",
              "stop_grace must not be below 0.",
              "dist_url is auto, which is for one machine, and machines is 2: give all of them an address of machine 0 "
              "and a free port there, such as tcp://machine0.example:29500.",
              "ddprun_arguments has '3' but takes options as --name or --name=value.",
              "ddprun_arguments has '--' but takes options as --name or --name=value."});
  CHECK(problems({.dist_url = "env://"}) == Texts{"dist_url is 'env://' but must be auto or tcp://host:port."});
  CHECK(problems({.dist_url = "tcp://nowhere"}).size() == 1);
}

TEST_CASE("one process that asks for nothing else needs no launcher", "[launch]") {
  CHECK(runs_in_process({}));
  CHECK_FALSE(runs_in_process({.processes_per_machine = 2}));
  CHECK_FALSE(runs_in_process({.machines = 2}));
  CHECK_FALSE(runs_in_process({.timeout = 1s}));
  CHECK_FALSE(runs_in_process({.max_restarts = 1}));
  CHECK_FALSE(runs_in_process({.ddprun_arguments = {"-v"}}));
}

TEST_CASE("a process that belongs to a job launches none", "[launch]") {
  CHECK(already_in_job({}).empty());
  CHECK(already_in_job({{"RANK", "0"}}).empty());
  CHECK(already_in_job({{"RANK", "3"}, {"WORLD_SIZE", "4"}}) ==
        "this process is rank 3 of a job already, and a worker cannot launch another job");
  CHECK_FALSE(already_in_job({{"TORCHELASTIC_RUN_ID", "x"}}).empty());
}

TEST_CASE("ddprun is looked for where it is named, beside the library, and in PATH", "[launch]") {
  const Environment path{{"PATH", "/usr/bin::/bin"}};
  CHECK(launcher_candidates({}, path, "/opt/d/lib/libddprun_ddp.so") ==
        Texts{"/opt/d/lib/ddprun", "/opt/d/lib/../bin/ddprun", "/opt/d/lib/../../bin/ddprun", "/usr/bin/ddprun",
              "/bin/ddprun"});
  CHECK(launcher_candidates({}, {{"DDPRUN_LAUNCHER", "/x"}, {"PATH", "/bin"}}, "/l/l.so") == Texts{"/x"});
  CHECK(launcher_candidates({.ddprun = "/y"}, {{"DDPRUN_LAUNCHER", "/x"}}, "/l/l.so") == Texts{"/y"});
}

TEST_CASE("a failed launch is told by what ddprun has left of its end", "[launch]") {
  CHECK(failure_text({.exit_code = 1}, "the job failed: rank 1.\n  program: x", {}) ==
        "the job failed: rank 1.\n  program: x");
  CHECK(failure_text({.exit_code = 137}, "", {}) == "ddprun ended with exit code 137, without a message.");
  CHECK(failure_text({.timed_out = true}, "the job was interrupted by SIGTERM.", {.timeout = 1500ms}) ==
        "the launched job was ended: it ran longer than 1500 ms (LaunchOptions::timeout).");
}

TEST_CASE("of ddprun's end the message is taken, and of anything else nothing", "[launch]") {
  CHECK(message_in("{\"exit_code\":1,\"message\":\"a\\nb\",\"first_failure\":null}\n") == "a\nb");
  for (const char* text : {"", "{\"exit_code\":1,\"mess", "[]", "7", "{\"message\":7}", "{\"exit_code\":1}"})
    CHECK(message_in(text).empty());
}

TEST_CASE("a worker knows its call again", "[launch]") {
  const auto by = launched_by_from(to_text({.call = 3, .folder = "/tmp/a:b"}));
  REQUIRE(by);
  CHECK(by->call == 3);
  CHECK(by->folder == "/tmp/a:b");
  for (const char* text : {"", "3", "3:", ":/tmp", "x:/tmp", "3:tmp"}) CHECK_FALSE(launched_by_from(text));
}

TEST_CASE("an exception is written as torchelastic writes it", "[launch]") {
  const auto file = nlohmann::json::parse(
      error_file("std::out_of_range", "no \xff such", std::chrono::system_clock::time_point(1700000000s)));
  CHECK(file["message"]["message"] == "std::out_of_range: no \xEF\xBF\xBD such");
  CHECK(file["message"]["extraInfo"]["timestamp"] == "1700000000");
}
