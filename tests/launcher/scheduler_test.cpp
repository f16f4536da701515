#include "launcher/scheduler/scheduler.h"

#include "launcher/config/cli.h"
#include "launcher/config/options.h"
#include "launcher/print/print_config.h"
#include "launcher/scheduler/kubernetes.h"
#include "launcher/scheduler/slurm.h"
#include "tests/support/test.h"

TEST_CASE("the values of a step are shown with their variables, and the requeues on top", "[scheduler]") {
  const Environment step{{"SLURM_JOB_ID", "1234"}, {"SLURM_STEP_ID", "0"}, {"SLURM_RESTART_COUNT", "2"}};
  const std::string shown = print_config(read_command_line({"train"}, {step}).config);
  INFO(shown);
  CHECK(shown.find("\n# Slurm has requeued this job 2 times (SLURM_RESTART_COUNT).\n") != std::string::npos);
  const std::string line = shown.substr(shown.find("\nrdzv-id = ") + 1);
  CHECK(line.starts_with("rdzv-id = 1234 "));
  CHECK(line.substr(0, line.find('\n')).ends_with(" # SLURM_JOB_ID"));
}

TEST_CASE("without a scheduler's variables nothing is asked of the machine", "[scheduler]") {
  const auto never = []() -> std::string { throw std::logic_error("asked"); };
  const std::map<std::string, std::string> environment{{"PATH", "/bin"}};
  const SchedulerValues values = scheduler_values({options(), {}, environment, never, never});
  CHECK(values.settings.empty());
  CHECK_FALSE(values.requeues);
  const std::map<std::string, std::string> pod{{"JOB_COMPLETION_INDEX", "1"}};  // and no --nnodes
  CHECK(scheduler_values({options(), {}, pod, never, never}).settings.empty());
}

TEST_CASE("a value that the user gave is not among those of the scheduler", "[scheduler]") {
  const std::map<std::string, std::string> step{{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}};
  const std::vector<settings::Setting> given{{&option("rdzv-id"), "mine", settings::Origin::command_line, "--rdzv-id"}};
  CHECK(scheduler_values({options(), given, step}).settings.empty());
  CHECK(scheduler_values({options(), {}, step}).settings.size() == 1);
}

namespace {

// What nodes of a step meet at, and what is warned of; `why` has the names without an address.
struct Meets {
  std::string at, warning, asked;
};
Meets where_a_step_meets(const std::map<std::string, std::optional<std::string>>& why, const std::string& shown,
                         const char* nodes = "2") {
  Meets out;
  const NodeQuestions ask{[&](const std::string& name) -> std::optional<std::string> {
                            const auto found = why.find(name);
                            return found == why.end() ? "" : found->second;
                          },
                          [&](const std::string& name) { return out.asked += name, shown; }};
  const std::map<std::string, std::string> step{{"SLURM_JOB_ID", "7"},
                                                {"SLURM_STEP_ID", "0"},
                                                {"SLURM_STEP_NUM_NODES", nodes},
                                                {"SLURM_NODEID", "1"},
                                                {"SLURM_STEP_NODELIST", "n[1-2]"}};
  const SchedulerValues values = scheduler_values({options(), {}, step, {}, {}, ask});
  for (const settings::Setting& setting : values.settings)
    if (setting.option->name == std::string("master-addr")) out.at = setting.text;
  for (const std::string& sentence : values.warnings) out.warning += sentence;
  return out;
}

const std::string kShownNode = "NodeName=n1 Arch=x86_64\n   NodeAddr=10.0.0.1 NodeHostName=n1 Version=22.05.8\n";

}  // namespace

TEST_CASE("a node whose name has an address is not asked about at Slurm, nor while a name server is slow",
          "[scheduler]") {
  for (const auto& why : {std::map<std::string, std::optional<std::string>>{}, {{"n1", std::nullopt}}}) {
    const Meets meets = where_a_step_meets(why, kShownNode);
    CHECK(meets.at == "n1");
    CHECK(meets.warning.empty());
    CHECK(meets.asked.empty());
  }
  CHECK(where_a_step_meets({{"n1", "unknown"}}, kShownNode, "1").asked.empty());  // nobody is to be reached
}

TEST_CASE("a node whose name has no address is reached by its NodeAddr", "[scheduler]") {
  const Meets meets = where_a_step_meets({{"n1", "Name or service not known"}}, kShownNode);
  CHECK(meets.at == "10.0.0.1");
  CHECK(meets.warning.empty());
  CHECK(meets.asked == "n1");
}

TEST_CASE("where Slurm knows no better address the nodes go on with the name, and are told what to set",
          "[scheduler]") {
  const std::map<std::string, std::optional<std::string>> none{{"n1", "Name or service not known"}, {"x", "unknown"}};
  for (const std::string shown :
       {"", "NodeName=n1\n   NodeAddr=n1 NodeHostName=n1\n", "   NodeAddr=x\n", "NodeAddr="}) {
    const Meets meets = where_a_step_meets(none, shown);
    CHECK(meets.at == "n1");
    CHECK_THAT(meets.warning, Contains("n1, the first one in SLURM_STEP_NODELIST") &&
                                  Contains("Name or service not known") && Contains("--master-addr HOST"));
  }
}

TEST_CASE("neighbouring jobs and steps meet at ports of their own, below the ephemeral ones", "[scheduler]") {
  std::set<int> ports;
  for (std::uint64_t job = 4'000'000; job < 4'000'900; ++job)
    for (std::uint64_t step = 0; step < 9; ++step) ports.insert(slurm_port(job, step));
  CHECK(ports.size() == 900 * 9);
  CHECK(*ports.begin() >= 20'000);
  CHECK(*ports.rbegin() < 29'000);
  CHECK(slurm_port(0xffffffff, 0xffffffef) >= 20'000);
}

TEST_CASE("the first pod is found by the own pod's name and domain", "[scheduler]") {
  const std::string hosts = "127.0.0.1 localhost\n10.0.0.5\tmnist-13.svc.ns.svc.cluster.local\tmnist-13 # own\n";
  CHECK(first_pod("mnist-13", "13", hosts) == "mnist-0.svc.ns.svc.cluster.local");
  CHECK(first_pod("mnist-13", "3", hosts) == "");  // another index than the name's
  CHECK(first_pod("mnist-1", "1", hosts) == "");   // no line of its own
  CHECK(first_pod("mnist", "13", hosts) == "");
  CHECK(first_pod("", "", "") == "");
  CHECK(first_pod("mnist-2.svc.ns.svc.cluster.local", "2", "") == "mnist-0.svc.ns.svc.cluster.local");
  CHECK(first_pod("set-workers-0-3", "3", "10.0.0.7 set-workers-0-3.set.default.svc.k8s set-workers-0-3\n") ==
        "set-workers-0-0.set.default.svc.k8s");
}
