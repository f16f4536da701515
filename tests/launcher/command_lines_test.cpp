// What is taken from a scheduler's environment, and every way to be wrong with what ddprun answers:
// testdata/scheduler.txt and wrong_command_lines.txt, rewritten by DDPRUN_UPDATE=1.
#include "launcher/scheduler/scheduler.h"

#include <sstream>

#include "launcher/cli.h"
#include "launcher/options.h"
#include "launcher/print_config.h"
#include "launcher/scheduler/kubernetes.h"
#include "launcher/scheduler/slurm.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"
#include "tests/support/places.h"
#include "tests/support/transcript.h"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

const std::string kFolder = test::source_folder() + "/tests/launcher/testdata/";
const std::string kGolden = kFolder + "scheduler.txt", kWrong = kFolder + "wrong_command_lines.txt";

struct Place {
  agent::Environment environment = {};
  std::string host_name = {}, hosts_file = {}, job_file = {};
};

void set_variable(agent::Environment& environment, const std::string& word) {
  const std::size_t equals = word.find('=');
  environment[word.substr(0, equals)] = word.substr(equals + 1);
}

// "| SLURM_NODEID=1", "| the host is mnist-1", "| /etc/hosts has 10.0.0.5 mnist-1.svc mnist-1"
void add(Place& place, const std::string& line) {
  constexpr std::string_view kHost = "the host is ", kHosts = "/etc/hosts has ", kJobFile = "job.toml has ";
  if (line.starts_with(kHost))
    place.host_name = line.substr(kHost.size());
  else if (line.starts_with(kHosts))
    place.hosts_file += line.substr(kHosts.size()) + "\n";
  else if (line.starts_with(kJobFile))
    place.job_file += line.substr(kJobFile.size()) + "\n";
  else
    set_variable(place.environment, line);
}

CommandLine read(std::vector<std::string> words, Place place) {
  while (!words.empty() && words.front() != "ddprun") {
    set_variable(place.environment, words.front());
    words.erase(words.begin());
  }
  REQUIRE(!words.empty());
  words.erase(words.begin());
  const auto read_file = [&](const std::string& path) -> std::variant<FileText, Unreadable> {
    if (path == "/etc/hosts") return FileText{place.hosts_file};
    if (path == "job.toml") return FileText{place.job_file};
    return Unreadable{"No such file or directory"};
  };
  return read_command_line(words, {place.environment, read_file, {}, [&] { return place.host_name; }});
}

// The words of a line as a shell reads them, as far as quotes go.
std::vector<std::string> shell_words(const std::string& line) {
  std::vector<std::string> words;
  bool inside = false;
  char quote = 0;
  for (const char c : line) {
    if (quote ? c == quote : c == '\'' || c == '"') {
      quote = quote ? '\0' : c;
      if (!inside) words.emplace_back();
      inside = true;
    } else if (!quote && c == ' ') {
      inside = false;
    } else {
      if (!inside) words.emplace_back();
      inside = true;
      words.back() += c;
    }
  }
  return words;
}

// What it takes, what it warns of, and what is wrong.
std::string answer(const std::string& line, const Place& place) {
  const CommandLine result = read(shell_words(line), place);
  std::string out;
  for (const settings::Option& option : options().options)
    if (const settings::Setting* setting = in_force(result.config.settings, option);
        setting && setting->origin == settings::Origin::scheduler)
      out += std::string(option.name) + " = " + setting->text + "  (" + setting->place + ")\n";
  if (result.config.requeues.value_or(0) > 0) out += "requeues: " + std::to_string(*result.config.requeues) + "\n";
  for (const std::string& sentence : result.warnings) out += "warning: " + sentence + "\n";
  for (const std::string& sentence : result.mistakes) out += "mistake: " + sentence + "\n";
  for (const std::string& sentence : problems(result.config, {8})) out += "mistake: " + sentence + "\n";
  return out.empty() ? "(nothing)\n" : out;
}

// "PET_ROLE=x ddprun --tee=9 train" → what is wrong with it.
std::string mistakes(const std::string& line, const Place& place) {
  const CommandLine result = read(shell_words(line), place);
  const Machine machine{.cpus = 8, .interfaces = [] { return std::vector<std::string>{"lo", "eth0"}; }};
  std::string out;
  for (const std::string& sentence : result.mistakes) out += sentence + "\n";
  for (const std::string& sentence : problems(result.config, machine)) out += sentence + "\n";
  return out.empty() ? "(nothing is wrong)\n" : out;
}

// Comments, places ("| ") and commands ("$ ") stay; what else stands below a command is its answer.
template <class Add, class Answer>
std::string replayed(const std::string& golden, Add add_line, Answer answer_to) {
  std::istringstream in(golden);
  std::string out;
  Place place;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) place = {};
    if (line.starts_with("|")) add_line(place, line.substr(std::min<std::size_t>(2, line.size())));
    if (line.empty() || line[0] == '#' || line[0] == '|') out += line + "\n";
    if (line.starts_with("$ ")) out += line + "\n" + answer_to(line.substr(2), place);
  }
  return out;
}

}  // namespace

TEST_CASE("what the variables of a step or a pod stand in for, and what they leave alone", "[scheduler]") {
  const std::string golden = test::read_file(kGolden), now = replayed(golden, add, answer);
  CHECK(std::count(golden.begin(), golden.end(), '$') >= 30);
  if (!test::matches_golden(kGolden, now)) CHECK(now == golden);
}

TEST_CASE("the values of a step are shown with their variables, and the requeues on top", "[scheduler]") {
  const agent::Environment step{{"SLURM_JOB_ID", "1234"},
                                {"SLURM_STEP_ID", "0"},
                                {"SLURM_STEP_NUM_NODES", "2"},
                                {"SLURM_STEP_NODELIST", "n[01-02]"},
                                {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                {"SLURM_NODEID", "1"},
                                {"SLURMD_NODENAME", "n02"},
                                {"SLURM_GPUS_ON_NODE", "8"},
                                {"SLURM_RESTART_COUNT", "2"}};
  const std::string shown = print_config(read({"ddprun", "train"}, {step}).config);
  INFO(shown);
  const auto line = [&](const std::string& name) {
    const std::size_t at = shown.find("\n" + name + " = ") + 1;
    const std::string whole = shown.substr(at, shown.find('\n', at) - at);
    return whole.substr(0, whole.find_last_not_of(' ', whole.find('#') - 1) + 1) + " " + whole.substr(whole.find('#'));
  };
  CHECK(line("node-rank") == "node-rank = 1 # SLURM_NODEID");
  CHECK(line("master-addr") == "master-addr = \"n01\" # SLURM_STEP_NODELIST");
  CHECK(line("rdzv-backend") == "rdzv-backend = \"static\" # default");
  CHECK(shown.find("\n# Slurm has requeued this job 2 times (SLURM_RESTART_COUNT).\n") != std::string::npos);
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

TEST_CASE("every wrong command line, variable and file is answered in sentences a person can act on", "[wrong]") {
  const std::string golden = test::read_file(kWrong);
  const auto add_line = [](Place& place, const std::string& line) { place.job_file += line + "\n"; };
  const std::string now = replayed(golden, add_line, mistakes);
  CHECK(std::count(golden.begin(), golden.end(), '$') >= 60);
  if (!test::matches_golden(kWrong, now)) CHECK(now == golden);
}

TEST_CASE("no wrong command line is taken for right, and every sentence is whole", "[wrong]") {
  std::istringstream lines(test::read_file(kWrong));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#' || line[0] == '|' || line.starts_with("$ ")) continue;
    INFO(line);
    CHECK(line != "(nothing is wrong)");
    CHECK((line.ends_with('.') || line.ends_with('?')));
  }
}
