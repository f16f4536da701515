// Before a job stops, its C++ workers save at one step: with the real ddprun, on one node and on two.
#include "tests/e2e/programs.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"

namespace {

std::vector<std::string> stepping(std::vector<std::string> options, const std::vector<std::string>& words = {}) {
  options.push_back(programs_folder() + "/step_worker");
  options.insert(options.end(), words.begin(), words.end());
  return job_of(std::move(options));
}

void wait_until_up(Command& job, std::initializer_list<int> ranks) {
  for (const int rank : ranks) job.wait_for_output("up " + std::to_string(rank), kLimit);
}

std::string saved_at(Command& job, int rank) {
  return job.wait_for_output("rank " + std::to_string(rank) + " saves at (\\d+)", 0ms).at(1);
}

}  // namespace

TEST_CASE("preempted, C++ workers save at one step, and the job is to be requeued", "[save][fast]") {
  const int signal = GENERATE(SIGTERM, SIGUSR1);
  Command job(stepping({"--nproc_per_node=4", "--preempt-signal=USR1", "--stop-grace=60"}));
  wait_until_up(job, {0, 1, 2, 3});
  job.kill(signal);
  CHECK(job.wait_exit(kLimit) == exited(75));
  for (const int rank : {1, 2, 3}) CHECK(saved_at(job, rank) == saved_at(job, 0));
}

TEST_CASE("workers of two nodes save at one step, though each node hears of it at another time", "[save][sanitized]") {
  const std::string port = std::to_string(free_port());
  const auto node = [&](int rank) {
    return stepping({"--nproc_per_node=2", "--nnodes=2", "--node-rank=" + std::to_string(rank),
                     "--master-addr=127.0.0.1", "--master-port=" + port, "--stop-grace=60"});
  };
  Command first(node(0)), second(node(1));
  wait_until_up(first, {0, 1});
  wait_until_up(second, {2, 3});
  second.kill(SIGTERM);
  CHECK(first.wait_exit(kLimit) == exited(75));
  CHECK(second.wait_exit(kLimit) == exited(75));
  CHECK(saved_at(first, 1) == saved_at(first, 0));
  for (const int rank : {2, 3}) CHECK(saved_at(second, rank) == saved_at(first, 0));
}

TEST_CASE("after a failure C++ workers leave at once and without saving", "[save]") {
  Command job(stepping({"--nproc_per_node=3", "--max-restarts=0", "--stop-grace=60"}, {"fail"}));
  const Ended ended = job.wait_exit(kLimit);  // less than the grace period: no worker was killed
  CHECK(ended == exited(1));
  CHECK_FALSE(has(ended.out, "saves"));
  CHECK(has(ended.err, "rank 1"));
}
