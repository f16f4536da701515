#include "trainer/options.h"

#include "tests/support/catch.h"
#include "trainer/device_choice.h"

using namespace ddprun;
using Catch::Matchers::Contains;

namespace {

Options parsed(std::vector<std::string> arguments) {
  const auto result = parse_options(std::move(arguments));
  REQUIRE_FALSE(result.leave);
  return result.options;
}

RankEnv worker(int local_rank, int local_world_size) {
  RankEnv env;
  env.local_rank = env.rank = local_rank;
  env.local_world_size = env.world_size = local_world_size;
  return env;
}

std::string refusal(DeviceChoice choice, int gpus, const RankEnv& env) {
  return std::get<std::string>(choose_device(choice, gpus, env));
}

}  // namespace

TEST_CASE("train 50 10 means 50 epochs and a snapshot after every tenth", "[options]") {
  const Options options = parsed({"50", "10"});
  CHECK(options.total_epochs == 50);
  CHECK(options.save_every == 10);
  CHECK(problems(options).empty());
}

TEST_CASE("every option is read, with a space or with =", "[options]") {
  const Options options = parsed({"--model", "m", "--dataset=mnist", "--data", "d", "--batch-size=5", "--lr", "0.5",
                                  "--momentum=0.1", "--snapshot", "s", "--fresh", "--seed=18446744073709551615",
                                  "--device", "cuda", "--log-every=3", "--threads", "2", "--init=w"});
  CHECK(options.model == "m");
  CHECK(options.dataset == "mnist");
  CHECK(options.data == "d");
  CHECK(options.batch_size == 5);
  CHECK(options.lr == 0.5);
  CHECK(options.momentum == 0.1);
  CHECK(options.snapshot == "s");
  CHECK(options.fresh);
  CHECK(options.seed == 18446744073709551615u);
  CHECK(options.device == DeviceChoice::cuda);
  CHECK(options.log_every == 3);
  CHECK(options.threads == 2);
  CHECK(options.init == "w");
}

TEST_CASE("option --help names every option and leaves with 0", "[options]") {
  const auto help = parse_options({"--help"}).leave;
  REQUIRE(help);
  CHECK(help->code == 0);
  for (const char* name :
       {"--model", "--dataset", "--data", "--batch-size", "--lr", "--momentum", "--snapshot", "--fresh", "--seed",
        "--device", "--log-every", "--threads", "--init", "total_epochs", "save_every"})
    CHECK_THAT(help->text, Contains(name));
}

TEST_CASE("a command line that cannot be read leaves with 2 and a sentence", "[options]") {
  const std::vector<std::vector<std::string>> lines{
      {"--epochs=3"}, {"ten"}, {"--device=tpu"}, {"--lr"}, {"1", "2", "3"}};
  for (const auto& line : lines) {
    const auto leave = parse_options(line).leave;
    REQUIRE(leave);
    CHECK(leave->code == 2);
    CHECK_THAT(leave->text, Contains("train: ") && Contains("train --help"));
  }
}

TEST_CASE("all values that cannot work are told at once", "[options]") {
  const Options options = parsed(
      {"0", "0", "--batch-size=0", "--lr=0", "--momentum=1", "--log-every=-1", "--threads=-1", "--snapshot", ""});
  CHECK(problems(options).size() == 8);
}

TEST_CASE("auto takes a GPU per worker where there are GPUs", "[device]") {
  CHECK(std::holds_alternative<UseCpu>(choose_device(DeviceChoice::automatic, 0, worker(0, 4))));
  CHECK(std::get<UseGpu>(choose_device(DeviceChoice::automatic, 4, worker(3, 4))).index == 3);
  CHECK(std::holds_alternative<UseCpu>(choose_device(DeviceChoice::cpu, 4, worker(0, 8))));
}

TEST_CASE("more workers than GPUs is one sentence", "[device]") {
  CHECK_THAT(refusal(DeviceChoice::automatic, 1, worker(0, 4)),
             Contains("4 workers on this machine but only 1 GPU: start at most one worker per GPU "
                      "(--nproc_per_node=1), or pass --device cpu."));
  CHECK_THAT(refusal(DeviceChoice::cuda, 2, worker(1, 3)), Contains("only 2 GPUs"));
  CHECK_THAT(refusal(DeviceChoice::cuda, 0, worker(0, 1)), Contains("sees no GPU"));
}

TEST_CASE("threads are what was asked, else OMP_NUM_THREADS, else one", "[device]") {
  CHECK(choose_threads(3, true) == 3);
  CHECK(choose_threads(0, true) == 0);
  CHECK(choose_threads(0, false) == 1);
}
