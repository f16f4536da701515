// A stock Python DDP script (stock_ddp.py) over test hosts: gloo between them, and no code for ddprun in it.
#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

constexpr int kEpochs = 150;       // many, so that the job still trains at every event
constexpr auto kTorchLimit = 60s;  // importing torch takes seconds

void start(HostJob& job, int host) {
  const std::string script = source_folder() + "/tests/e2e/stock_ddp.py";
  job.start_command(host, joined({{"env", "PYTHON_EXEC=" + torch_python(), kDdprun},
                                  elastic_over_hosts("1:2"),
                                  {"--rdzv-conf=last_call_timeout=1", script, std::to_string(kEpochs), "1"}}));
}

// Each of these hosts trains, as one of these ranks; the first of them continues from a snapshot.
void wait_until_trained(HostJob& job, const std::vector<int>& hosts, const std::map<int, Mark>& after) {
  const std::string ranks = "[0-" + std::to_string(hosts.size() - 1) + "]";
  for (const int host : hosts) {
    job[host].wait_for_output("Resuming training from snapshot at Epoch [1-9]", kTorchLimit, after.at(host));
    job[host].wait_for_output("\\[RANK " + ranks + "\\] Epoch ", kTorchLimit, after.at(host));
  }
}

std::map<int, Mark> marks(HostJob& job, const std::vector<int>& hosts) {
  std::map<int, Mark> result;
  for (const int host : hosts) result[host] = job[host].mark();
  return result;
}

}  // namespace

TEST_CASE("a stock Python DDP script grows from one host to two, is restarted, and finishes its epochs", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(2, {});
  start(job, 0);
  job[0].wait_for_output("\\[RANK 0\\] Epoch 3 \\| Steps: 64", kTorchLimit);

  auto before = marks(job, {0});
  start(job, 1);
  before[1] = {};
  wait_until_trained(job, {0, 1}, before);

  before = marks(job, {0, 1});
  ::kill(job.worker(1), SIGKILL);
  wait_until_trained(job, {0, 1}, before);

  for (const int host : {0, 1}) {
    const Ended ended = job[host].wait_exit(kTorchLimit);
    CHECK(ended == exited(0));
    CHECK_THAT(ended.out, Catch::Contains("Epoch " + std::to_string(kEpochs - 1) + " | Steps: 32"));  // half each
  }
}
