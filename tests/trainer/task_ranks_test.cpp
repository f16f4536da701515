#include "trainer/ddp/group/task_ranks.h"

#include "tests/support/test.h"

namespace {

// Rank 1 of two on one host.
const Environment kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_RANK", "1"},
                           {"PMIX_NAMESPACE", "1315241985"}};
const Environment kStep{{"SLURM_JOB_ID", "7"},       {"SLURM_STEP_ID", "0"},        {"SLURM_PROCID", "1"},
                        {"SLURM_NTASKS", "2"},       {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_NNODES", "4"},
                        {"SLURM_JOB_NODELIST", "n1"}};

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}
Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

bool alone(const Environment& environment) {
  const TaskRanks ranks = task_ranks(environment);
  return ranks.from.empty() && ranks.problem.empty() && ranks.variables.empty();
}

}  // namespace

TEST_CASE("ranks on one host that mpirun or srun started meet there, at a port of their run", "[task_ranks]") {
  for (const Environment& environment :
       {kOpenMpi, kStep, with(kOpenMpi, {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}})}) {
    const auto [env, problems] = read_rank_env(environment);
    CHECK(problems.empty());
    CHECK(env.rank == 1);
    CHECK(env.world_size == 2);
    CHECK(env.master_addr == "127.0.0.1");
    CHECK(env.master_port >= 20'000);
    CHECK(env.master_port < 29'000);
    CHECK_FALSE(env.job.empty());
    CHECK_FALSE(env.local_given);  // the ranks tell each other which share a machine
  }
  CHECK(task_ranks(kOpenMpi).from == "OMPI_COMM_WORLD_RANK");
  CHECK(task_ranks(kStep).from == "SLURM_PROCID");
  CHECK(task_ranks(kStep).job != task_ranks(with(kStep, {{"SLURM_STEP_ID", "1"}})).job);
  CHECK(task_ranks(kStep).variables != task_ranks(with(kStep, {{"SLURM_STEP_ID", "1"}})).variables);
}

TEST_CASE("ranks on several hosts meet at MASTER_ADDR, or at the first host of Slurm's list", "[task_ranks]") {
  const Environment apart = with(kStep, {{"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "n[07-08]"}});
  CHECK(read_rank_env(apart).env.master_addr == "n07");
  CHECK(read_rank_env(with(apart, {{"MASTER_ADDR", "n9"}, {"MASTER_PORT", "1234"}})).env.master_addr == "n9");
  const Environment mpi = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  const auto given = read_rank_env(with(mpi, {{"MASTER_ADDR", "n9"}, {"MASTER_PORT", "1234"}}));
  CHECK(given.problems.empty());
  CHECK(given.env.master_addr == "n9");
  CHECK(given.env.master_port == 1234);
  CHECK(read_rank_env(with(mpi, {{"MASTER_ADDR", "n9"}})).env.master_port >= 20'000);
}

TEST_CASE("ranks that could not meet are told what to set", "[task_ranks]") {
  const auto refused = [](const Environment& environment, const std::string& part) {
    const auto problems = read_rank_env(environment).problems;
    REQUIRE(problems.size() == 1);
    CHECK_THAT(problems.front(), Contains(part));
    CHECK(read_rank_env(environment, /*needs_store=*/false).env.rank == (has(part, "how many") ? 0 : 1));
  };
  refused(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}), "set MASTER_ADDR for all of them");
  const Environment mpich{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}};
  refused(mpich, "PMI_SIZE is 2, but no variable says where these ranks meet: set MASTER_PORT for all of them");
  CHECK(read_rank_env(with(mpich, {{"MASTER_PORT", "1234"}})).env.master_addr == "127.0.0.1");
  refused({{"PMIX_RANK", "1"}}, "PMIX_RANK is 1, but no variable says how many ranks there are");
}

TEST_CASE("one process stays one", "[task_ranks]") {
  CHECK(alone({}));
  CHECK(alone(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}})));
  CHECK(alone({{"PMIX_RANK", "0"}}));
  CHECK(alone(with(kStep, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}})));
  // The batch script's own process, salloc's shell and the first shell of srun --pty.
  CHECK(alone(without(with(kStep, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}), "SLURM_STEP_ID")));
  CHECK(alone(with(kStep, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967291"}})));
  CHECK(alone(with(kStep, {{"SLURM_PROCID", "0"}, {"SLURM_PTY_PORT", "39999"}})));
  // The user's own ranks, and workers of ddprun and torchrun and what they start.
  CHECK(alone(with(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "1"}})));
  CHECK(alone(with(kStep, {{"DDPRUN_JOB", "x"}})));
  CHECK(alone(with(kStep, {{"TORCHELASTIC_RUN_ID", "x"}})));
}

TEST_CASE("the first host of Slurm's list", "[task_ranks]") {
  CHECK(first_host("n1") == "n1");
  CHECK(first_host("n1,n2") == "n1");
  CHECK(first_host("n[01-03,7],login2") == "n01");
  CHECK(first_host("rack[2-3]n[4,6]-ib") == "rack2n4-ib");
  CHECK(first_host("n[12]") == "n12");
  CHECK(first_host("n[1").empty());
  CHECK(first_host("").empty());
}
