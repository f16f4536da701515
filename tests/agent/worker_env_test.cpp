#include "agent/worker_env.h"

#include "agent/job_cookie.h"

#include "tests/support/catch.h"

using namespace ddprun;

namespace {

const JobIdentity job{"my-job", 3, "1:2:3:my-job"};
const Round two_nodes{5, {{0, 2, 0}, {1, 3, 2}}, "10.0.0.7", 41234, 1};

}  // namespace

TEST_CASE("a worker is told who it is, in torchrun's names", "[worker_env]") {
  const Environment env = worker_variables(job, two_nodes, two_nodes.nodes[1], 2, "/logs/error.json", {});
  const Environment expected{
      {"RANK", "4"},
      {"WORLD_SIZE", "5"},
      {"LOCAL_RANK", "2"},
      {"LOCAL_WORLD_SIZE", "3"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", "4"},
      {"ROLE_WORLD_SIZE", "5"},
      {"MASTER_ADDR", "10.0.0.7"},
      {"MASTER_PORT", "41234"},
      {"TORCHELASTIC_RESTART_COUNT", "1"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_RUN_ID", "my-job"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_ERROR_FILE", "/logs/error.json"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"OMP_NUM_THREADS", "1"},
      {"DDPRUN_ROUND", "5"},
      {"DDPRUN_JOB", "1:2:3:my-job"},
  };
  CHECK(env == expected);
}

TEST_CASE("a copy of a round's node gets the same place as the node itself", "[worker_env]") {
  const RoundNode copy = two_nodes.nodes[1];
  CHECK(worker_variables(job, two_nodes, copy, 0, "", {}).at("GROUP_RANK") == "1");
}

TEST_CASE("one worker keeps all threads, several get one each unless the person said otherwise", "[worker_env]") {
  const Round alone{1, {{0, 1, 0}}, "127.0.0.1", 1, 0};
  CHECK(worker_variables(job, alone, alone.nodes[0], 0, "", {}).count("OMP_NUM_THREADS") == 0);
  CHECK(worker_variables(job, two_nodes, two_nodes.nodes[0], 0, "", {{"OMP_NUM_THREADS", "7"}}).at("OMP_NUM_THREADS") ==
        "7");
}

TEST_CASE("what the person set for NCCL's error handling is kept", "[worker_env]") {
  const Environment inherited{{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}};
  CHECK(worker_variables(job, two_nodes, two_nodes.nodes[0], 0, "", inherited).at("TORCH_NCCL_ASYNC_ERROR_HANDLING") ==
        "3");
}

TEST_CASE("ddprun's variables replace inherited ones of the same name, the others stay", "[worker_env]") {
  const auto strings = merged({{"RANK", "old"}, {"HOME", "/home/me"}}, {{"RANK", "1"}});
  CHECK(strings == std::vector<std::string>{"HOME=/home/me", "RANK=1"});
}

TEST_CASE("a job's cookie survives the environment, whatever the run is called", "[job_cookie]") {
  const JobCookie cookie{"night run: 7", 4711, 123456789012, 4026531836};
  CHECK(parse_cookie(to_string(cookie)) == cookie);
  for (const char* wrong : {"", "x", "1:2:3", "1:2:x:id", "1;2;3;id"}) CHECK_FALSE(parse_cookie(wrong));
}
