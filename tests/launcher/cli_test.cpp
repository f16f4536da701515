#include "launcher/cli.h"

#include <cstdlib>

#include "tests/support/catch.h"

using namespace ddprun;

namespace {

using Words = std::vector<std::string>;
const Machine kMachine{8, 0};

Config parsed(const Words& words) {
  const auto result = parse(words);
  if (const auto* mistakes = std::get_if<Mistakes>(&result)) FAIL(mistakes->sentences.front());
  return std::get<Config>(result);
}

std::string mistake(const Words& words) {
  const auto result = parse(words);
  REQUIRE(std::holds_alternative<Mistakes>(result));
  return std::get<Mistakes>(result).sentences.front();
}

struct Variable {
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  const char* name_;
};

Words complaints(Words words) {
  words.push_back("true");
  return problems(parsed(words), kMachine);
}

}  // namespace

TEST_CASE("dashes and underscores, blanks and equal signs mean the same", "[cli]") {
  for (const Words& words : {Words{"--nproc-per-node", "4", "p"}, Words{"--nproc_per_node=4", "p"},
                             Words{"--nproc-per-node=4", "p"}, Words{"--nproc_per_node", "4", "p"}})
    CHECK(parsed(words).nproc_per_node == "4");
}

TEST_CASE("every option arrives", "[cli]") {
  const Config config =
      parsed({"--standalone", "--max-restarts=7", "--no-python", "--master-addr", "h", "--master_port=1", "--rdzv-id",
              "id", "--log-dir=d", "--stop-grace", "2.5", "--nnodes=1", "-v", "p"});
  CHECK(config.standalone);
  CHECK(config.max_restarts == 7);
  CHECK(config.no_python);
  CHECK(config.master_addr == "h");
  CHECK(config.master_port == 1);
  CHECK(config.rdzv_id == "id");
  CHECK(config.log_dir == "d");
  CHECK(config.stop_grace_s == 2.5);
  CHECK(config.verbose);
  CHECK(parsed({"-m", "p"}).module);
  CHECK(parsed({"--module", "p"}).module);
  CHECK(parsed({"--shutdown_timeout=3", "p"}).stop_grace_s == 3);
}

TEST_CASE("everything after the program is the program's own", "[cli]") {
  CHECK(parsed({"--nproc-per-node=2", "train", "--nproc-per-node=9", "-m", "--", "x", "--help"}).program ==
        Words{"train", "--nproc-per-node=9", "-m", "--", "x", "--help"});
  CHECK(parsed({"--", "train", "-v"}).program == Words{"train", "-v"});
}

TEST_CASE("the last one of a repeated option counts", "[cli]") {
  CHECK(parsed({"--nproc-per-node=2", "--nproc_per_node=5", "p"}).nproc_per_node == "5");
}

TEST_CASE("the environment stands in for an option, the command line wins", "[cli]") {
  const Variable nproc("PET_NPROC_PER_NODE", "6"), standalone("PET_STANDALONE", "1");
  CHECK(parsed({"p"}).nproc_per_node == "6");
  CHECK(parsed({"p"}).standalone);
  CHECK(parsed({"--nproc-per-node=2", "p"}).nproc_per_node == "2");
}

TEST_CASE("an unknown option is named with the nearest one", "[cli]") {
  CHECK(mistake({"--nproc_per_nod=2", "p"}) == "There is no option --nproc_per_nod; did you mean --nproc-per-node?");
  CHECK(mistake({"--frobnicate", "p"}) == "There is no option --frobnicate; ddprun --help lists them.");
}

TEST_CASE("a value of the wrong kind names its option", "[cli]") {
  CHECK(mistake({"--max_restarts=many", "p"}) == "--max-restarts is 'many'; it takes a number.");
  const Variable bad("PET_MAX_RESTARTS", "many");
  CHECK(mistake({"p"}) ==
        "--max-restarts is 'many'; it takes a number. It comes from PET_MAX_RESTARTS in the environment.");
  CHECK(std::holds_alternative<Config>(parse({"--max-restarts=2", "p"})));
}

TEST_CASE("option --help and --version answer, also without a program", "[cli]") {
  CHECK(std::holds_alternative<Answer>(parse({"--help"})));
  CHECK(std::get<Answer>(parse({"--version"})).text == "ddprun 0.1.0\n");
}

TEST_CASE("workers are counted as asked", "[config]") {
  CHECK(worker_count("3", {8, 0}) == 3);
  CHECK(worker_count("cpu", {8, 2}) == 8);
  CHECK(worker_count("gpu", {8, 2}) == 2);
  CHECK(worker_count("auto", {8, 2}) == 2);
  CHECK(worker_count("auto", {8, 0}) == 8);
  for (const char* wrong : {"gpu", "0", "-1", "2x", "", "lots"}) CHECK_FALSE(worker_count(wrong, {8, 0}));
}

TEST_CASE("every mistake is one sentence, and all are told at once", "[config]") {
  CHECK(complaints({}).empty());
  CHECK(complaints({"--nnodes=1:1"}).empty());
  CHECK(complaints({"--nnodes=2"}) ==
        Words{"--nnodes is 2: jobs of several nodes are not supported yet; leave it out for this machine alone."});
  CHECK(complaints({"--nnodes=1:4"}).size() == 1);
  CHECK(complaints({"--nnodes=x"}) == Words{"--nnodes is 'x', which is neither a number of nodes nor MIN:MAX."});
  CHECK(complaints({"--nproc-per-node=none"}) ==
        Words{"--nproc-per-node is 'none'; it takes a number from 1 up, cpu, gpu, or auto."});
  CHECK(complaints({"--nproc-per-node=gpu"}) ==
        Words{"--nproc-per-node is 'gpu', but this machine shows no NVIDIA device; pass a number, or auto."});
  CHECK(complaints({"--nproc-per-node=0", "--max-restarts=-1", "--master-port=70000", "--rdzv-id=a/b",
                    "--stop-grace=-1", "-m", "--no-python"})
            .size() == 6);
  CHECK(problems(parsed({}), kMachine) == Words{"No program is named: ddprun [options] PROGRAM [its arguments]."});
}
