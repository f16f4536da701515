#include "trainer/ddp/group/rank_env.h"

#include "tests/support/test.h"

namespace {

const Environment kRankThree{{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "10.0.0.4"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                             {"TORCHELASTIC_RUN_ID", "7"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"}};

Environment with(const std::string& name, const std::string& value) {
  Environment environment = kRankThree;
  environment[name] = value;
  return environment;
}

std::string only_problem(const Environment& environment) {
  const auto problems = read_rank_env(environment).problems;
  REQUIRE(problems.size() == 1);
  return problems.front();
}

}  // namespace

TEST_CASE("without a launcher the process is a world of its own", "[rank_env]") {
  const auto [env, problems] = read_rank_env({});
  CHECK(problems.empty());
  CHECK(env.rank == 0);
  CHECK(env.world_size == 1);
  CHECK(env.local_world_size == 1);
  CHECK_FALSE(env.under_agent);
  CHECK(env.round == 1);
}

TEST_CASE("ranks and addresses come from torchrun's names", "[rank_env]") {
  const auto [env, problems] = read_rank_env(kRankThree);
  CHECK(problems.empty());
  CHECK(env.rank == 3);
  CHECK(env.world_size == 4);
  CHECK(env.local_rank == 1);
  CHECK(env.local_world_size == 2);
  CHECK(env.master_addr == "10.0.0.4");
  CHECK(env.route_addr == "10.0.0.4");
  CHECK(env.master_port == 29500);
  CHECK(env.agent_store);
  CHECK(env.under_agent);
  CHECK(env.round == 3);
}

TEST_CASE("ddprun says more than torchrun does", "[rank_env]") {
  CHECK(read_rank_env(with("DDPRUN_ROUND", "9")).env.round == 9);
  const auto env = read_rank_env(with("DDPRUN_MASTER_ADDR", "10.0.0.5")).env;
  CHECK(env.master_addr == "10.0.0.4");
  CHECK(env.route_addr == "10.0.0.5");
}

TEST_CASE("whether local ranks and nodes were told is known", "[rank_env]") {
  CHECK(read_rank_env(kRankThree).env.local_given);
  CHECK_FALSE(read_rank_env(with("LOCAL_RANK", "")).env.local_given);
  CHECK(read_rank_env(kRankThree).env.group_rank == -1);
  CHECK(read_rank_env(with("GROUP_RANK", "2")).env.group_rank == 2);
}

TEST_CASE("ranks that meet elsewhere need no address of a store", "[rank_env]") {
  const Environment ranks{{"RANK", "1"}, {"WORLD_SIZE", "2"}};
  CHECK(read_rank_env(ranks).problems.size() == 2);
  CHECK(read_rank_env(ranks, /*needs_store=*/false).problems.empty());
  CHECK(read_rank_env(ranks, /*needs_store=*/false).env.world_size == 2);
}

TEST_CASE("rank 0 serves the store unless the launcher does", "[rank_env]") {
  CHECK_FALSE(read_rank_env(with("TORCHELASTIC_USE_AGENT_STORE", "False")).env.agent_store);
}

TEST_CASE("an environment that does not hold together is told in sentences", "[rank_env]") {
  CHECK_THAT(only_problem({{"RANK", "0"}}), Contains("RANK and WORLD_SIZE go together"));
  CHECK_THAT(only_problem(with("RANK", "4")), Contains("RANK is 4 but WORLD_SIZE is 4: ranks count from 0 to 3."));
  CHECK_THAT(only_problem(with("RANK", "-1")), Contains("RANK is '-1' but must be a whole number from 0"));
  CHECK_THAT(only_problem(with("WORLD_SIZE", "four")), Contains("WORLD_SIZE is 'four'"));
  CHECK_THAT(only_problem(with("WORLD_SIZE", "4 ")), Contains("WORLD_SIZE is '4 '"));
  CHECK_THAT(only_problem(with("LOCAL_RANK", "2")), Contains("LOCAL_RANK is 2 but LOCAL_WORLD_SIZE is 2"));
  CHECK_THAT(only_problem(with("MASTER_PORT", "70000")), Contains("MASTER_PORT is '70000'"));
  CHECK_THAT(only_problem(with("MASTER_ADDR", "")), Contains("MASTER_ADDR is not set: start the workers with ddprun"));
}

TEST_CASE("all problems of an environment are told at once", "[rank_env]") {
  CHECK(read_rank_env({{"RANK", "x"}, {"WORLD_SIZE", "2"}}).problems.size() == 3);
}
