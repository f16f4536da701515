#include "launcher/config/rules_file.h"

#include "launcher/config/options_file.h"
#include "launcher/config/values.h"
#include "tests/support/test.h"

namespace {

OptionsFile file(const std::string& text) { return read_options_file("job.toml", text); }

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

TEST_CASE("rules are read in their order, with their places, and printed so that they are read again", "[rules_file]") {
  const OptionsFile written = file(kRules);
  REQUIRE(written.rules.failures.size() == 2);
  CHECK(written.rules.failures[0].place == "job.toml:1");
  for (const OptionsFile& read : {written, file(print_rules(written.rules))}) {
    CHECK(read.mistakes.empty());
    REQUIRE(read.rules.failures.size() == 2);
    const FailureRule& first = read.rules.failures[0];
    CHECK(first.classes == std::set{FailureClass::error, FailureClass::out_of_memory});
    CHECK(first.exit_codes == std::set{77, 78});
    CHECK(first.pattern == R"(data\d+: "gone")");
    CHECK(first.action == RuleAction::restart_elsewhere);
    CHECK(read.rules.failures[1].signals == std::set{SIGSEGV});
    REQUIRE(read.rules.output.size() == 2);
    CHECK(read.rules.output[0].pattern == R"(loss (\S+))");
    CHECK(read.rules.output[0].value.number == 100);
    CHECK(read.rules.output[0].lasts == 90s);
    CHECK(read.rules.output[0].action == RuleAction::requeue);
    CHECK(read.rules.output[1].silent == Duration(5min));
  }
}

TEST_CASE("a rule's pattern that is no regular expression is named with its line", "[rules_file]") {
  const std::vector<std::string> mistakes = file("[[rules]]\nstderr = 'a('\naction = 'stop'\n").mistakes;
  REQUIRE(mistakes.size() == 1);
  CHECK(mistakes[0].starts_with("job.toml:2: stderr is not a regular expression"));
}

TEST_CASE("limits of classes are numbers, perhaps in a time", "[values]") {
  const auto read = std::get<std::map<FailureClass, RestartLimit>>(
      read_restart_limits("crash=5 in 1h, out_of_memory=2,lost-node = 10 in 1 d"));
  CHECK(read == std::map<FailureClass, RestartLimit>{{FailureClass::crash, {5, 1h}},
                                                     {FailureClass::out_of_memory, {2, {}}},
                                                     {FailureClass::lost_node, {10, 24h}}});
  CHECK(std::get<std::map<FailureClass, RestartLimit>>(read_restart_limits("")).empty());
}

TEST_CASE("what a machine needs is named with its amount", "[values]") {
  const auto read = std::get<MachineLimits>(read_machine_limits("disk=10G, gpu_memory=90%,clock=500ms"));
  CHECK(read.disk_bytes == std::uint64_t{10} << 30);
  CHECK(read.gpu_memory_percent == 90);
  CHECK(read.clock == Duration(500ms));
  const auto why = [](const std::string& text) { return std::get<Wrong>(read_machine_limits(text)).complaint; };
  CHECK(why("disc=1G") == "there is no limit 'disc' (did you mean 'disk'?)");
  CHECK(why("disk") == "disk takes a size: disk=10G");
  CHECK(why("gpu-memory=101") == "gpu-memory takes a percentage: gpu-memory=90%");
  CHECK(why("clock=soon") == "clock takes a time: clock=1s");
}
