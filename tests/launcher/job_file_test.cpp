#include "launcher/job_file.h"

#include <csignal>

#include "launcher/options.h"
#include "launcher/rules_file.h"
#include "launcher/values.h"
#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;
using rendezvous::FailureClass, rendezvous::RestartLimit, rendezvous::RuleAction;

namespace {

JobFile file(const std::string& text) { return read_job_file("job.toml", text); }

std::string text_of(const JobFile& read, const std::string& name) {
  for (const settings::Setting& setting : read.settings)
    if (setting.option == &option(name.c_str())) return setting.text;
  return "(not set)";
}

std::string only_mistake(const std::string& rule) {
  const JobFile read = file("[[rules]]\n" + rule);
  return read.mistakes.size() == 1 ? read.mistakes.front() : std::to_string(read.mistakes.size()) + " mistakes";
}

std::string why_wrong(const std::string& limits) {
  const auto read = read_restart_limits(limits);
  return std::holds_alternative<Wrong>(read) ? std::get<Wrong>(read).complaint : "";
}

constexpr const char* kRules = R"([[rules]]
class = ["error", "out_of_memory"]
exit-code = [77, 78]
stderr = 'data\d+: "gone"'
action = "restart-elsewhere"
[[rules]]
signal = "SEGV"
action = "stop"
[[rules]]
line = 'loss (\S+)'
value = "> 100"
for = 90
action = "requeue"
[[rules]]
silent = "5m"
action = "restart"
)";

}  // namespace

TEST_CASE("a file's keys are the options, with dashes or underscores", "[config_file]") {
  const JobFile read = file("nproc-per-node = 4\nmax_restarts = 2\nstandalone = true\nstop-grace = 2.5\nrole = 'a'\n");
  CHECK(read.mistakes.empty());
  CHECK(text_of(read, "nproc-per-node") == "4");
  CHECK(text_of(read, "max-restarts") == "2");
  CHECK(text_of(read, "standalone") == "true");
  CHECK(text_of(read, "stop-grace") == "2.5");
  CHECK(text_of(read, "role") == "a");
  CHECK(read.settings.front().place.starts_with("job.toml:"));
}

TEST_CASE("a key of a job's file names the command that reads it", "[config_file]") {
  CHECK(file("[slurm]\npartition = 'gpu'\n").mistakes ==
        std::vector<std::string>{
            "job.toml:1: slurm is a key of a job's file, which --config does not read: ddprun run job.toml."});
}

TEST_CASE("an array in a file is a list, and a comma in a filter stays one", "[config_file]") {
  const JobFile read = file(
      "local-ranks-filter = [0, '2-3']\nduplicate-stdout-filters = ['a,b', 'c']\n"
      "signals-to-handle = ['SIGTERM']\n");
  CHECK(read.mistakes.empty());
  CHECK(text_of(read, "local-ranks-filter") == "0,2-3");
  CHECK(text_of(read, "duplicate-stdout-filters") == "a,,b,c");
  CHECK(text_of(read, "signals-to-handle") == "SIGTERM");
}

TEST_CASE("a file may name the program and variables for the workers", "[config_file]") {
  const JobFile read = file("program = ['train', '--lr', '1']\n[env]\nNCCL_DEBUG = 'INFO'\nOMP_NUM_THREADS = 4\n");
  CHECK(read.mistakes.empty());
  CHECK(read.program == std::vector<std::string>{"train", "--lr", "1"});
  CHECK(read.program_place == "job.toml:1");
  CHECK(read.env == std::map<std::string, std::string>{{"NCCL_DEBUG", "INFO"}, {"OMP_NUM_THREADS", "4"}});
  CHECK(file("program = 'train'").program == std::vector<std::string>{"train"});
}

TEST_CASE("mistakes in a file come in the order of its lines", "[config_file]") {
  const JobFile read = file("zzz = 1\nrole = []\naaa = 1\n");
  REQUIRE(read.mistakes.size() == 3);
  CHECK(read.mistakes[0].starts_with("job.toml:1: there is no key zzz"));
  CHECK(read.mistakes[1].starts_with("job.toml:2: role is an array"));
  CHECK(read.mistakes[2].starts_with("job.toml:3: there is no key aaa"));
}

TEST_CASE("a key of 200,000 parts in a file is told, never a crash", "[config_file]") {
  std::string key = "a";
  for (int i = 1; i < 200'000; ++i) key += ".a";
  for (const std::string& text : {key + " = 1", "[" + key + "]\nb = 1", "x = {" + key + " = 1}", key}) {
    const JobFile read = file("role = 'b'\n" + text + "\n");
    REQUIRE(read.mistakes.size() == 1);
    CHECK(read.mistakes[0].starts_with("job.toml:2: "));
    CHECK(read.mistakes[0].find("a key has more than 8 parts") != std::string::npos);
  }
}

TEST_CASE("dots in texts, comments and numbers are no parts of a key", "[config_file]") {
  const std::string dots(100, '.');
  for (const std::string& text :
       {"role = '" + dots + "'", R"(role = "\")" + dots + "\"", "role = '''a\n" + dots + "'''",
        "role = \"\"\"\n" + dots + "\\\"\"\" " + dots + "\"\"\"", "role = 'a' # " + dots, "'" + dots + "' = 1",
        std::string("local-ranks-filter = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5]")}) {
    INFO(text);
    for (const std::string& mistake : file(text).mistakes)
      CHECK(mistake.find("more than 8 parts") == std::string::npos);
  }
}

TEST_CASE("any bytes in a file are told or read, never a crash", "[config_file]") {
  for (const char* text : {"\xff\xfe", "= 1", "[", "[[env]]", "a.b = 1", "\"\" = 1", "[env]\n\"\" = 'x'", "role = 'a",
                           "[env.x]\ny = 1", "program = []", "tee = {a = 1}", "role = 1979-05-27T07:32:00Z"})
    CHECK_NOTHROW(file(text));
  CHECK(file("").mistakes.empty());
  CHECK(file("role.x = 1").mistakes.size() == 1);
}

TEST_CASE("rules are read in their order, with their places", "[rules_file]") {
  const JobFile read = file(kRules);
  CHECK(read.mistakes.empty());
  REQUIRE(read.rules.failures.size() == 2);
  const rendezvous::FailureRule& first = read.rules.failures[0];
  CHECK(first.classes == std::set{FailureClass::error, FailureClass::out_of_memory});
  CHECK(first.exit_codes == std::set{77, 78});
  CHECK(first.pattern == R"(data\d+: "gone")");
  CHECK(first.action == RuleAction::restart_elsewhere);
  CHECK(first.place == "job.toml:1");
  CHECK(read.rules.failures[1].signals == std::set{SIGSEGV});
  REQUIRE(read.rules.output.size() == 2);
  CHECK(read.rules.output[0].value.number == 100);
  CHECK(read.rules.output[0].lasts == 90s);
  CHECK(read.rules.output[0].action == RuleAction::requeue);
  CHECK(read.rules.output[1].silent == Duration(5min));
}

TEST_CASE("rules that are printed are read again as they were", "[rules_file]") {
  const JobFile read = file(kRules), again = file(print_rules(read.rules));
  CHECK(again.mistakes.empty());
  CHECK(again.rules.failures[0].pattern == read.rules.failures[0].pattern);
  CHECK(again.rules.failures[0].exit_codes == read.rules.failures[0].exit_codes);
  CHECK(again.rules.failures[1].signals == read.rules.failures[1].signals);
  CHECK(again.rules.output[0].pattern == read.rules.output[0].pattern);
  CHECK(again.rules.output[0].lasts == read.rules.output[0].lasts);
  CHECK(again.rules.output[1].silent == read.rules.output[1].silent);
}

TEST_CASE("a wrong rule is one sentence, with its line", "[rules_file]") {
  CHECK(only_mistake("class = 'crash'\n").starts_with("job.toml:1: a rule says what to do: action = "));
  CHECK(only_mistake("clas = 'crash'\naction = 'stop'\n").ends_with("Did you mean 'class'?"));
  CHECK(only_mistake("class = 'crashes'\naction = 'stop'\n").starts_with("job.toml:2: class is the string 'crashes'"));
  CHECK(only_mistake("exit-code = 0\naction = 'stop'\n") ==
        "job.toml:2: exit-code is 0; it takes a number from 1 to 255.");
  CHECK(only_mistake("signal = 'SIGNONE'\naction = 'stop'\n")
            .ends_with("it takes the name of a signal, such as \"SIGSEGV\"."));
  CHECK(only_mistake("stderr = 'a('\naction = 'stop'\n").starts_with("job.toml:2: stderr is not a regular expression"));
  CHECK(only_mistake("class = []\naction = 'stop'\n").starts_with("job.toml:2: class is an empty list"));
  CHECK(only_mistake("action = 'halt'\n").starts_with("job.toml:2: action is the string 'halt'; it takes restart"));
  CHECK(only_mistake("silent = '5m'\nsignal = 'SEGV'\naction = 'stop'\n")
            .starts_with("job.toml:1: a rule is about failures (signal) or about the output"));
  CHECK(only_mistake("silent = '5m'\nfor = '1m'\naction = 'stop'\n")
            .ends_with("value and for belong to line, not to "
                       "silent."));
  CHECK(only_mistake("value = 'nan'\naction = 'stop'\n").starts_with("job.toml:1: a rule about output has line"));
  CHECK(only_mistake("line = 'x'\nvalue = '> y'\naction = 'stop'\n").starts_with("job.toml:3: value is"));
  CHECK(only_mistake("silent = 'soon'\naction = 'stop'\n").starts_with("job.toml:2: silent is"));
  CHECK(file("rules = 3\n").mistakes == std::vector<std::string>{"job.toml:1: rules is 3; each rule begins with a line "
                                                                 "[[rules]]."});
}

TEST_CASE("limits of classes are numbers, perhaps in a time", "[values]") {
  const auto read = std::get<std::map<FailureClass, RestartLimit>>(
      read_restart_limits("crash=5 in 1h, out_of_memory=2,lost-node = 10 in 1 d"));
  CHECK(read == std::map<FailureClass, RestartLimit>{{FailureClass::crash, {5, 1h}},
                                                     {FailureClass::out_of_memory, {2, {}}},
                                                     {FailureClass::lost_node, {10, 24h}}});
  CHECK(std::get<std::map<FailureClass, RestartLimit>>(read_restart_limits("")).empty());
  CHECK(why_wrong("crashs=1") == "there is no class 'crashs' (did you mean crash?)");
  CHECK(why_wrong("crash") == "'crash': it takes a number, or as many in a time: 5, \"5 in 1h\"");
  CHECK(why_wrong("crash=1 in soon").starts_with("'crash': it takes a number"));
  CHECK(why_wrong("crash=1 in 9d") == "'crash': it takes a time of at most 7d");
  CHECK(why_wrong("crash=1,crash=2") == "'crash' is named twice");
}

TEST_CASE("what a machine needs is named with its amount", "[values]") {
  const auto read = std::get<agent::MachineLimits>(read_machine_limits("disk=10G, gpu_memory=90%,clock=500ms"));
  CHECK(read.disk_bytes == std::uint64_t{10} << 30);
  CHECK(read.gpu_memory_percent == 90);
  CHECK(read.clock == Duration(500ms));
  const auto why = [](const std::string& text) { return std::get<Wrong>(read_machine_limits(text)).complaint; };
  CHECK(why("disc=1G") == "there is no limit 'disc' (did you mean disk?)");
  CHECK(why("disk") == "disk takes a size: disk=10G");
  CHECK(why("gpu-memory=101") == "gpu-memory takes a percentage: gpu-memory=90%");
  CHECK(why("clock=soon") == "clock takes a time: clock=1s");
}
