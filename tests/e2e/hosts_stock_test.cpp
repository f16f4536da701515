// A stock Python DDP script (examples/ddp-python) over test hosts: gloo between them, and no code for ddprun in it.
#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

constexpr int kEpochs = 100;       // many, so that the job still trains at every event
constexpr auto kTorchLimit = 60s;  // importing torch takes seconds

void start(HostJob& job, int host) {
  const std::string script = source_folder() + "/examples/ddp-python/train.py";
  job.start_command(host, joined({{"env", "PYTHON_EXEC=" + torch_python(), "OMP_NUM_THREADS=1", kDdprun},
                                  elastic_over_hosts("1:2"),
                                  {"--rdzv-conf=last_call_timeout=1", script, std::to_string(kEpochs)}}));
}

// Rank 0 prints, whichever host has it.
std::string printed(HostJob& job, const std::map<int, Mark>& after) {
  std::string out;
  for (const auto& [host, mark] : after) out += job[host].out().substr(mark.out);
  return out;
}

// Both hosts train on from a snapshot, each on half of the data.
void wait_until_both_train(HostJob& job, const std::map<int, Mark>& after) {
  static const std::regex kGoesOn("going on from snapshot.pt: [1-9][^]*\nepoch \\d+ of \\d+: world size 2, 16 steps");
  INFO(job[0].err() << job[1].err());
  REQUIRE(eventually([&] { return std::regex_search(printed(job, after), kGoesOn); }, kTorchLimit));
}

}  // namespace

TEST_CASE("a stock Python DDP script grows from one host to two, is restarted, and finishes its epochs", "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(2, {});
  start(job, 0);
  job[0].wait_for_output("^epoch 3 of \\d+: world size 1, 32 steps", kTorchLimit);

  const Mark alone = job[0].mark();
  start(job, 1);
  wait_until_both_train(job, {{0, alone}, {1, {}}});

  const std::map<int, Mark> before{{0, job[0].mark()}, {1, job[1].mark()}};
  ::kill(job.worker(1), SIGKILL);
  wait_until_both_train(job, before);

  for (const int host : {0, 1}) CHECK(job[host].wait_exit(kTorchLimit) == exited(0));
  CHECK(has(printed(job, before), "epoch " + std::to_string(kEpochs) + " of"));
}
