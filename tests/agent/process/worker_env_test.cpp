#include "agent/process/worker_env.h"

#include "agent/process/job_cookie.h"

#include "tests/support/test.h"

namespace {

const JobIdentity job{"my-job", 3, "1:2:3:my-job"};
// Of two nodes with two and three workers.
std::vector<Seat> two_nodes() {
  return rendezvous::seats({5, {{0, 2, 0}, {1, 3, 2}}, "10.0.0.7", 41234, {.counts = {.crashes = 1}}});
}

}  // namespace

TEST_CASE("a worker is told who it is, in torchrun's names", "[worker_env]") {
  const Environment env = worker_variables(job, two_nodes()[1], 2, "/logs/error.json", {});
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

TEST_CASE("one worker keeps all threads, several get one each, and what the person set is kept", "[worker_env]") {
  const Seat alone{.round = 1, .master_host = "127.0.0.1", .master_port = 1};
  CHECK(worker_variables(job, alone, 0, "", {}).count("OMP_NUM_THREADS") == 0);
  CHECK(worker_variables(job, two_nodes()[0], 0, "", {{"OMP_NUM_THREADS", "7"}}).at("OMP_NUM_THREADS") == "7");
  const Environment of_nccl{{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}};
  CHECK(worker_variables(job, two_nodes()[0], 0, "", of_nccl).at("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "3");
}

TEST_CASE("ddprun's variables replace inherited ones of the same name, the others stay", "[worker_env]") {
  const auto strings = merged({{"RANK", "old"}, {"HOME", "/home/me"}}, {{"RANK", "1"}});
  CHECK(strings == std::vector<std::string>{"HOME=/home/me", "RANK=1"});
  CHECK(merged({{"A", "1"}, {"D", ""}, {"F", "2"}}, {{"B", "3"}, {"D", "4"}, {"E", ""}}) ==
        std::vector<std::string>{"A=1", "B=3", "D=4", "E=", "F=2"});
  CHECK(merged({}, {}).empty());
  CHECK(without({"A=1", "B=2", "BC=3", "D="}, {{"B", ""}, {"C", ""}, {"D", "4"}}) == Words{"A=1", "BC=3"});
}

TEST_CASE("a start time is the same in every time namespace", "[job_cookie]") {
  CHECK(shift_of_start_times("", 100) == 0);  // a kernel without them
  CHECK(shift_of_start_times("monotonic           0         0\nboottime            0         0\n", 100) == 0);
  CHECK(shift_of_start_times("monotonic          7         0\nboottime       100000 500000000\n", 100) == 10'000'050);
  CHECK(shift_of_start_times("monotonic   0    0\nboottime   -3    250000000\n", 100) == -275);
}

TEST_CASE("a job's cookie survives the environment, whatever the run is called", "[job_cookie]") {
  const JobCookie cookie{"night run: 7", 4711, 123456789012, 4026531836};
  CHECK(parse_cookie(to_string(cookie)) == cookie);
  for (const char* wrong : {"", "x", "1:2:3", "1:2:x:id", "1;2;3;id"}) CHECK_FALSE(parse_cookie(wrong));
}

TEST_CASE("ranks of a role are counted among the workers of that role", "[worker_env]") {
  Round round{1, {}, "10.0.0.7", 41234, {}};
  for (const RoundNode& node :
       {RoundNode{0, 2, 0, "actor"}, RoundNode{1, 3, 2, "learner"}, RoundNode{2, 1, 5, "actor"}})
    round.nodes.push_back(node);
  const Environment learner = worker_variables(job, rendezvous::seats(round)[1], 2, "", {});
  CHECK(learner.at("ROLE_NAME") == "learner");
  CHECK(learner.at("ROLE_RANK") == "2");
  CHECK(learner.at("ROLE_WORLD_SIZE") == "3");
  CHECK(learner.at("RANK") == "4");
  CHECK(worker_variables(job, rendezvous::seats(round)[2], 0, "", {}).at("ROLE_RANK") == "2");
}

TEST_CASE("threads, interface and signals are what the person asked for", "[worker_env]") {
  JobIdentity chosen = job;
  chosen.omp_threads = 6;
  chosen.interface = "eth7";
  chosen.signals_to_handle = "SIGTERM";
  chosen.extra = {{"LEARNING_RATE", "0.1"}, {"RANK", "never"}};
  const Environment env =
      worker_variables(chosen, two_nodes()[0], 0, "", {{"OMP_NUM_THREADS", "7"}, {"LEARNING_RATE", "1"}});
  CHECK(env.at("OMP_NUM_THREADS") == "6");
  CHECK(env.at("GLOO_SOCKET_IFNAME") == "eth7");
  CHECK(env.at("NCCL_SOCKET_IFNAME") == "eth7");
  CHECK(env.at("TORCHELASTIC_SIGNALS_TO_HANDLE") == "SIGTERM");
  CHECK(env.at("LEARNING_RATE") == "0.1");
  CHECK(env.at("RANK") == "0");
}

TEST_CASE("a virtual local rank is 0 for all, each with a device of its own", "[worker_env]") {
  JobIdentity chosen = job;
  chosen.virtual_local_rank = true;
  const Environment devices{{"CUDA_VISIBLE_DEVICES", "4,GPU-77,6"}};
  const auto env = [&](int local_rank, const Environment& inherited) {
    return worker_variables(chosen, two_nodes()[1], local_rank, "", inherited);
  };
  CHECK(env(1, devices).at("LOCAL_RANK") == "0");
  CHECK(env(1, devices).at("CUDA_VISIBLE_DEVICES") == "GPU-77");
  CHECK(env(2, {}).at("CUDA_VISIBLE_DEVICES") == "2");
  CHECK(env(2, {}).at("LOCAL_WORLD_SIZE") == "3");
  CHECK_FALSE(virtual_device(devices, 3));
  CHECK(virtual_device({{"CUDA_VISIBLE_DEVICES", " a , b "}}, 1) == "b");
  CHECK(virtual_device({{"CUDA_VISIBLE_DEVICES", ""}}, 0) == "");
  CHECK_FALSE(virtual_device({{"CUDA_VISIBLE_DEVICES", ""}}, 1));
  const Environment rocm{{"CUDA_VISIBLE_DEVICES", "4,5"}, {"HIP_VISIBLE_DEVICES", "7,8"}};
  CHECK(env(1, rocm).at("HIP_VISIBLE_DEVICES") == "8");
  CHECK(env(1, rocm).at("CUDA_VISIBLE_DEVICES") == "8");
  CHECK_FALSE(env(1, devices).contains("HIP_VISIBLE_DEVICES"));
  CHECK(env(1, {{"HIP_VISIBLE_DEVICES", ""}, {"CUDA_VISIBLE_DEVICES", "4,5"}}).at("CUDA_VISIBLE_DEVICES") == "5");
}

TEST_CASE("with a virtual local rank AMD's and Intel's own variables give the device, too", "[worker_env]") {
  JobIdentity chosen = job;
  chosen.virtual_local_rank = true;
  const auto env = [&](int local_rank, const Environment& inherited) {
    return worker_variables(chosen, two_nodes()[1], local_rank, "", inherited);
  };
  const Environment slurm{{"ROCR_VISIBLE_DEVICES", "4,6"}};  // HIP counts among those that ROCR leaves
  CHECK(env(1, slurm).at("HIP_VISIBLE_DEVICES") == "1");
  CHECK(env(1, slurm).at("CUDA_VISIBLE_DEVICES") == "1");
  CHECK_FALSE(env(1, slurm).contains("ROCR_VISIBLE_DEVICES"));
  CHECK_FALSE(virtual_device(slurm, 2));
  const Environment intel{{"ZE_AFFINITY_MASK", "0.0,0.1"}};
  CHECK(env(1, intel).at("ZE_AFFINITY_MASK") == "0.1");
  CHECK_FALSE(env(1, intel).contains("CUDA_VISIBLE_DEVICES"));
  CHECK_FALSE(virtual_device(intel, 2));
  CHECK(env(1, {{"ROCR_VISIBLE_DEVICES", "4,6"}, {"CUDA_VISIBLE_DEVICES", "1,0"}}).at("CUDA_VISIBLE_DEVICES") == "0");
}

TEST_CASE("${local_rank} in an argument becomes the number, other macros stay", "[worker_env]") {
  CHECK(with_local_rank({"a${local_rank}b${local_rank}", "${rank}", "$local_rank", ""}, 12) ==
        Words{"a12b12", "${rank}", "$local_rank", ""});
}
