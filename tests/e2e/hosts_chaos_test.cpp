// `ddprun chaos` on `train` over three test hosts: the job recovers from every class of fault, and ends with exactly
// the weights of an undisturbed run.
#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

constexpr int kHosts = 3;
constexpr auto kJobLimit = 3600s, kTrainLimit = 60s;

std::string quoted(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "'" : " '") + word + "'";
  return out;
}

// Each host starts its ddprun again as a scheduler does, for as long as it ends with 75.
class ChaosJob : public HostJob {
 public:
  explicit ChaosJob(int epochs) : HostJob(kHosts, {}) {
    for (int host = 0; host < kHosts; ++host) {
      const Words words = joined({{"env", "OMP_NUM_THREADS=1", kDdprun},
                                  elastic_over_hosts("3:3", "host0:29400,host1:29400,host2:29400"),
                                  {"--node-rank=" + std::to_string(host), "--allow-chaos", "--max-restarts=1000",
                                   "--exclude-after=0", "--hang-timeout=3s", "--rdzv-id=chaos", train_program(),
                                   std::to_string(epochs), "20", "--device=cpu", "--snapshot=snapshot.pt"}});
      start_command(host, {"sh", "-c", "until " + quoted(words) + "; do [ $? = 75 ] || exit; done"});
    }
  }
  void ends_well() {
    for (int host = 0; host < kHosts; ++host) REQUIRE((*this)[host].wait_exit(kJobLimit) == exited(0));
  }
  std::string snapshot() const { return folder / "snapshot.pt"; }
};

void suffer_and_finish(int epochs, const Words& chaos) {
  ChaosJob job(epochs);
  REQUIRE(eventually(
      [&] {
        return run(job.hosts.on(1, {kDdprun, "status", "chaos"}), kTrainLimit).code == 0;
      },
      kTrainLimit));
  const Ended ended = run(job.hosts.on(1, joined({{kDdprun, "chaos", "chaos"}, chaos})), kJobLimit);
  INFO(ended.err << ended.out);
  REQUIRE(ended == exited(0));
  if (soaking()) std::fputs((ended.err + ended.out).c_str(), stdout);
  job.ends_well();
  ChaosJob undisturbed(epochs);
  undisturbed.ends_well();
  REQUIRE(same_weights(undisturbed.snapshot(), job.snapshot()) == exited(0));
}

}  // namespace

TEST_CASE("train under chaos ends with the weights of an undisturbed run, and recovers from every fault", "[hosts]") {
  if (!hosts_or_skip()) return;
  Series series(
      "`ddprun chaos` on `train` over 3 hosts, ten minutes of every class of fault: all recovered, weights "
      "bit-identical",
      1, 1);
  series.run([](std::uint64_t seed) {
    const std::string its = "--seed=" + std::to_string(seed);
    if (soaking()) return suffer_and_finish(6000, {its, "--every=5s", "--for=10m"});
    suffer_and_finish(100, {its, "--faults=kill,segv", "--every=0.1", "--count=2"});
  });
}
