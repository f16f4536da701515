#include "launcher/plan/host_job.h"

#include "launcher/config/cli.h"
#include "tests/support/test.h"

namespace {

using Ready = std::map<int, HostReady>;

CommandLine host_line(const Words& words, const Environment& environment = {}, const std::string& file = "") {
  CommandLine line = read_command_line(words, {environment, [file](const std::string&) { return FileText{file}; }});
  for (std::string& sentence : problems(line.config, {8})) line.mistakes.push_back(std::move(sentence));
  return line;
}

Config good(const Words& words, const Environment& environment = {}, const std::string& file = "") {
  CommandLine line = host_line(words, environment, file);
  INFO((line.mistakes.empty() ? "" : line.mistakes.front()));
  REQUIRE(line.mistakes.empty());
  return std::move(line.config);
}

HostJobOrder order_for(const Config& config) {
  HeadFacts facts;
  facts.ddprun = "/opt/ddprun";
  facts.folder = "/work";
  facts.environment = {{"PATH", "/bin"}, {"HOME", "/root"}};
  facts.run_id = "random";
  facts.token = "made";
  return host_job_order(config, facts);
}

Words start(const Config& config, const Ready& ready) {
  const auto options = start_options(config, ready);
  if (const auto* why = std::get_if<std::string>(&options)) return {"wrong: " + *why};
  return std::get<Words>(options);
}

const Ready kTwo{{0, {0, "10.0.0.1", "10.0.0.9", 20001}}, {1, {1, "10.0.0.2", "10.0.0.9", 20002}}};

}  // namespace

TEST_CASE("hosts come from --hosts, a host file, the environment or the configuration", "[ssh]") {
  const std::vector<HostEntry> two{{"a", 2}, {"b", {}}};
  CHECK(good({"--hosts=a:2,b", "p"}).hosts == two);
  CHECK(good({"p"}, {{"PET_HOSTS", "a:2,b"}}).hosts == two);
  CHECK(good({"--hostfile=f", "p"}, {}, "a slots=2\nb\n").hosts == two);
  CHECK(good({"--config=f", "p"}, {}, "hosts = [\"a:2\", \"b\"]\n").hosts == two);
  CHECK(good({"--config=f", "--hosts=", "p"}, {}, "hosts = \"a\"\n").hosts.empty());
  const Config all = good({"--hosts=a", "--ssh=ssh -p 1", "--ssh-fan-out=3", "p"});
  CHECK(all.ssh == Words{"ssh", "-p", "1"});
  CHECK(all.ssh_fan_out == 3);
}

TEST_CASE("what does not contradict --hosts is accepted", "[ssh]") {
  good({"--hosts=a,b", "--nnodes=1:4", "--rdzv-backend=c10d", "p"});
  good({"--hosts=a,b", "--nproc-per-node=gpu", "--interface=ib0", "p"});  // each host checks its own
  good({"--hosts=a,b", "p"}, {{"SLURM_STEP_NUM_TASKS", "1"}});
}

TEST_CASE("the agents get what was typed and set, but not where the job starts", "[ssh]") {
  const Config config =
      good({"--hosts=a:2,b", "--max_restarts", "5", "-m", "--log-dir=l", "--ssh=s", "--config=f", "p", "--hosts=x"},
           {{"PET_STOP_GRACE", "3"}, {"PET_RDZV_ID", "mine"}}, "omp-threads = 2\n");
  const HostJobOrder order = order_for(config);
  for (const char* word :
       {"--module=true", "--stop-grace=3", "--max-restarts=5", "--log-dir=l", "--hosts=", "--rdzv-id=mine"})
    CHECK(std::count(order.options.begin(), order.options.end(), word) == 1);
  for (const std::string& word : order.options) {
    CHECK_FALSE(word.starts_with("--ssh"));
    CHECK_FALSE(word.starts_with("--config"));
    CHECK_FALSE(word.starts_with("--omp-threads"));  // the hosts read it in the file
  }
  CHECK(order.config_name == "f");
  CHECK(order.program == Words{"p", "--hosts=x"});
  CHECK(order.hosts == std::vector<JobHost>{{0, "a", 2}, {1, "b", {}}});
  CHECK(order.token == "made");
  CHECK(order.stop_grace_ms == 3000);
  CHECK(order.environment == std::map<std::string, std::string>{{"PATH", "/bin"}});
  // As an agent on a host reads it, with what the host adds.
  Words words = order.options;
  words.insert(words.end(), {"--nnodes=2", "--node-rank=1", "--master-addr=10.0.0.1", "--", "p"});
  const Config there = good(words);
  CHECK(there.hosts.empty());
  CHECK(there.module);
  CHECK(there.rounds.restarts.max_restarts == 5);
}

TEST_CASE("hosts meet at the first one's address, at a free port of it", "[ssh]") {
  CHECK(start(good({"--hosts=a,b", "p"}), kTwo) ==
        Words{"--nnodes=2", "--master-port=20001", "--master-addr=10.0.0.1"});
  CHECK(start(good({"--hosts=a,b", "--master-port=5", "p"}), kTwo) == Words{"--nnodes=2", "--master-addr=10.0.0.1"});
  CHECK(start(good({"--hosts=a,b", "--master-addr=x", "--master-port=5", "p"}), kTwo) == Words{"--nnodes=2"});
  CHECK(start(good({"--hosts=a,b", "--nnodes=1:3", "--rdzv-backend=c10d", "p"}), {{1, {1, "fd99::2", "", 20002}}}) ==
        Words{"--nnodes=1:3", "--rdzv-endpoint=[fd99::2]:20002"});
  CHECK(start(good({"--hosts=a,b", "--rdzv-backend=c10d", "p"}), kTwo) ==
        Words{"--nnodes=2", "--rdzv-endpoint=10.0.0.1:20001"});
  CHECK(start(good({"--hosts=a,b", "--rdzv-backend=etcd", "--rdzv-endpoint=e1", "p"}), kTwo) == Words{"--nnodes=2"});
  CHECK(start(good({"--hosts=a", "--rdzv-backend=etcd", "p"}), {*kTwo.begin()}) == Words{"--nnodes=1"});
  CHECK(start(good({"--hosts=a", "p"}), {{0, {0, "10.0.0.1", "", 20001}}}) == Words{"--nnodes=1"});
  // The first one is the machine of the command: the others have seen its address.
  CHECK(start(good({"--hosts=localhost,b", "p"}), {{0, {0, "", "", 20001}}, {1, kTwo.at(1)}}) ==
        Words{"--nnodes=2", "--master-port=20001", "--master-addr=10.0.0.9"});
  CHECK_THAT(start(good({"--hosts=a,b", "p"}), {{0, {0, "127.0.0.1", "127.0.0.1", 20001}}, {1, kTwo.at(1)}}).front(),
             Catch::Contains("a is reached by 127.0.0.1") && Catch::Contains("--master-addr"));
}

TEST_CASE("a dry run shows each host's ranks and its command", "[ssh]") {
  const Config config = good({"--hosts=a:2,b,c:1,here", "--nproc-per-node=3", "--ssh-fan-out=1", "--dry-run", "p"});
  const std::string text = hosts_dry_run(config, order_for(config), "here");
  CHECK_THAT(text, Catch::Contains("a: node 0, ranks 0 to 1\n") && Catch::Contains("b: node 1, ranks 2 to 4\n") &&
                       Catch::Contains("c: node 2, rank 5\n") && Catch::Contains("here: node 3, ranks 6 to 8\n") &&
                       Catch::Contains("  from        b\n") && Catch::Contains("/opt/ddprun ssh-node"));
  const Config by_gpu = good({"--hosts=a,b:1", "--nproc-per-node=gpu", "p"});
  CHECK_THAT(hosts_dry_run(by_gpu, order_for(by_gpu), "here"),
             Catch::Contains("a: node 0, workers: as many as --nproc-per-node finds there\n") &&
                 Catch::Contains("b: node 1, 1 worker\n"));
  const Config with_spare = good({"--hosts=a,b,c", "--spares=1", "p"});
  CHECK_THAT(hosts_dry_run(with_spare, order_for(with_spare), "here"),
             Catch::Contains("b: node 1, rank 1\n") && Catch::Contains("c: node 2, a spare\n"));
  CHECK(std::get<Words>(start_options(with_spare, {{0, {0, "10.0.0.1", "10.0.0.9", 20001}},
                                                   {1, {1, "10.0.0.2", "10.0.0.9", 20001}},
                                                   {2, {2, "10.0.0.3", "10.0.0.9", 20001}}}))
            .front() == "--nnodes=2");
}
