#include "launcher/ctl_words.h"

#include "launcher/running_jobs.h"
#include "tests/support/catch.h"

using namespace ddprun::launcher;
using Catch::Matchers::Contains;
using ddprun::rendezvous::ActKind;
using namespace ddprun;

namespace {

const std::string kTable =
    "Num       RefCount Protocol Flags    Type St Inode Path\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41234 /run/dbus/system_bus_socket\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41235 @ddprun/1000/4711/mnist-7\n"
    "0000000000000000: 00000003 00000000 00000000 0001 03 41236 @ddprun/1000/4711/mnist-7\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41237 @ddprun/1000/4800/mnist-7\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41238 @ddprun/0/4900/a job of root's\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01 41239 @ddprun/nonsense\n";

}  // namespace

TEST_CASE("an act, with or without the job's name", "[ctl]") {
  CHECK(read_ctl_words({"restart"}).act.kind == ActKind::restart);
  CHECK(read_ctl_words({"restart"}).job.empty());
  CHECK(read_ctl_words({"mnist", "pause"}).job == "mnist");
  CHECK(read_ctl_words({"mnist", "drain", "n3"}).act.node == "n3");
  CHECK(read_ctl_words({"drain", "n3"}).act.node == "n3");
  CHECK(read_ctl_words({"drain", "n3"}).job.empty());
  CHECK(read_ctl_words({"drain", "stop"}).act.node == "stop");  // a node may be called so
  CHECK(read_ctl_words({"stop", "stop"}).job == "stop");        // and a job
  CHECK(read_ctl_words({"drain", "drain", "n3"}).job == "drain");
  CHECK(read_ctl_words({"mnist", "stacks"}).stacks);
  const CtlWords resize = read_ctl_words({"resize", "2:4"});
  CHECK(resize.act.nodes_min == 2);
  CHECK(resize.act.nodes_max == 4);
  CHECK(read_ctl_words({"resize", "3"}).act.nodes_min == 3);
  CHECK(read_ctl_words({"resize", "3"}).act.nodes_max == 3);
}

TEST_CASE("workers are added and removed by their number, on one node or all", "[ctl]") {
  const auto act = [](const std::vector<std::string>& words) { return in_words(read_ctl_words(words).act); };
  CHECK(act({"add-workers"}) == "add-workers 1");
  CHECK(act({"add_workers", "2"}) == "add-workers 2");
  CHECK(act({"add-workers", "n3"}) == "add-workers 1 n3");
  CHECK(act({"mnist", "add-workers", "2", "n3"}) == "add-workers 2 n3");
  CHECK(act({"remove-workers", "1", "0"}) == "remove-workers 1 0");  // group rank 0
  CHECK(read_ctl_words({"mnist", "add-workers", "2", "n3"}).job == "mnist");
}

TEST_CASE("options say where a job elsewhere is", "[ctl]") {
  const CtlWords words = read_ctl_words({"--rdzv_endpoint", "n1:29400", "far", "stop", "--token-file=t"});
  CHECK(words.mistake.empty());
  CHECK(words.job == "far");
  CHECK(words.access == std::vector<std::string>{"--rdzv-endpoint=n1:29400", "--token-file=t"});
}

TEST_CASE("wrong words of ctl are told in a sentence each", "[ctl]") {
  const auto mistake = [](const std::vector<std::string>& words) { return read_ctl_words(words).mistake; };
  CHECK_THAT(mistake({}), Contains("it takes an act"));
  for (const char* count : {"0", "99999999", "70000"})
    CHECK_THAT(mistake({"add-workers", count}), Contains("is no number of workers"));
  CHECK_THAT(mistake({"add-workers", "2", "n3", "n4"}), Contains("'n4' is one word too many."));
  CHECK_THAT(mistake({"remove-workers", "n3", "n4"}), Contains("'n4' is one word too many."));
  CHECK_THAT(mistake({"restrat"}), Contains("'restrat' is no act. Did you mean 'restart'?"));
  CHECK_THAT(mistake({"mnist", "restrat"}), Contains("'restrat' is no act."));
  CHECK_THAT(mistake({"drain"}), Contains("drain takes a node"));
  CHECK_THAT(mistake({"restart", "now"}), Contains("'now' is one word too many."));
  CHECK_THAT(mistake({"resize"}), Contains("resize takes the numbers of nodes"));
  for (const char* sizes : {"4:2", "0:2", "a", "2:", ":2", "2:x", "99999999"})
    CHECK_THAT(mistake({"resize", sizes}), Contains("they are MIN:MAX"));
  CHECK_THAT(mistake({"--token-file=t", "stop"}), Contains("--rdzv-endpoint"));
  CHECK_THAT(mistake({"--token-file"}), Contains("needs a value"));
  CHECK_THAT(mistake({"--force", "stop"}), Contains("there is no option --force"));
  CHECK_THAT(read_ctl_words({"--help"}).answer, Contains("drain NODE"));
}

TEST_CASE("agents that can be asked for stacks are in the kernel's table of sockets", "[stacks]") {
  const auto agents = agent::listening_agents(kTable);
  REQUIRE(agents.size() == 3);
  CHECK(agents[0].user == 1000);
  CHECK(agents[0].agent == 4711);
  CHECK(agents[0].run_id == "mnist-7");
  CHECK(agents[2].run_id == "a job of root's");
  CHECK(socket_name(agents[1]) == "ddprun/1000/4800/mnist-7");
  CHECK(agent::socket_name({0, 1, std::string(200, 'x')}).size() < 107);
}

TEST_CASE("a job is named by its id, the beginning of it, or a process", "[stacks]") {
  const auto agents = agent::listening_agents(kTable);
  CHECK(choose_job(agents, "mnist").agent->run_id == "mnist-7");
  CHECK(choose_job(agents, "4900").agent == &agents[2]);
  CHECK(choose_job({agents[0], agents[1]}, "").agent);  // two nodes of one job
  CHECK(choose_job(agents, "").complaint == "several jobs run here; name one of them: a job of root's, mnist-7.");
  CHECK(choose_job(agents, "cifar").complaint == "no job here is cifar; there are: a job of root's, mnist-7.");
  CHECK(choose_job({}, "").complaint == "no job of yours runs on this machine.");
}
