#include "agent/logs/output_watch.h"

#include "agent/diagnosis/rule_search.h"
#include "agent/logs/output_metrics.h"
#include "agent/logs/output_monitor.h"
#include "tests/support/test.h"

namespace {

const TimePoint t0{};
const std::string letters(16'000, 'a');
constexpr const char* kSlow = "(a+)+[bc]";

OutputRule loss_rule(const std::string& value, Duration lasts) {
  return {.pattern = R"(loss[ =](\S+))", .value = *read_value_test(value), .lasts = lasts, .place = "loss"};
}

std::string place_at(const OutputWatch& watch, TimePoint now) {
  const auto found = watch.finding(now);
  return found ? found->rule.place + "/" + std::to_string(found->local_rank) : "";
}

}  // namespace

TEST_CASE("a value has to be bad in every line for the whole time", "[output_watch]") {
  OutputWatch watch({loss_rule("nan", 2min)});
  watch.take_line(1, {"NaN"}, t0);
  watch.take_line(1, {std::nullopt}, t0 + 1min);
  CHECK(place_at(watch, t0 + 2min - 1s).empty());
  CHECK(place_at(watch, t0 + 2min) == "loss/1");
  watch.take_line(0, {"0.5"}, t0 + 2min);  // another rank's
  CHECK(place_at(watch, t0 + 2min) == "loss/1");
  watch.take_line(1, {"0.5"}, t0 + 2min);
  CHECK(place_at(watch, t0 + 9min).empty());
}

TEST_CASE("a value is compared as a number, and what is none is neither above nor below", "[output_watch]") {
  CHECK(read_value_test("> 100")->holds("1e3"));
  CHECK(read_value_test(">100")->holds("inf"));
  CHECK_FALSE(read_value_test("> 100")->holds("100"));
  CHECK_FALSE(read_value_test("> 100")->holds("many"));
  CHECK(read_value_test("< -0.5")->holds("-1"));
  CHECK(read_value_test("diverged")->holds("DIVERGED"));
  CHECK_FALSE(read_value_test("> x"));
  CHECK_FALSE(read_value_test(""));
}

TEST_CASE("silence counts from the last line of any worker, and only after a first one", "[output_watch]") {
  OutputWatch watch({{.silent = 5min, .place = "silent"}});
  CHECK(place_at(watch, t0 + 1h).empty());
  watch.take_line(0, {std::nullopt}, t0);
  watch.take_line(3, {std::nullopt}, t0 + 4min);
  CHECK(place_at(watch, t0 + 9min - 1s).empty());
  CHECK(place_at(watch, t0 + 9min) == "silent/3");
  watch.begin_round();
  CHECK(place_at(watch, t0 + 1h).empty());
}

TEST_CASE("lines arrive whole, however their bytes came, and those of an older round do not", "[output_watch]") {
  const auto shared = std::make_shared<OutputMonitor>(std::vector{loss_rule("nan", 1ms)});
  OutputMonitor& monitor = *shared;
  monitor.begin_round(2);
  auto old = monitor.tap(1, 0), tap = monitor.tap(2, 5);
  old("loss nan\n");
  tap("a progress bar\rlo");
  tap("ss n");
  CHECK_FALSE(monitor.finding());
  tap("an\r");
  REQUIRE(test::eventually([&] { return monitor.finding().has_value(); }, 20s));
  CHECK(monitor.finding()->local_rank == 5);
  tap("loss 1\n");
  tap(std::string(1 << 20, 'x') + " loss nan\n");  // beyond what is searched
  CHECK_FALSE(monitor.finding());
}

TEST_CASE("a search has one budget for all offsets of a line, and a pattern that is wrong says where",
          "[output_watch]") {
  const auto captured = [](const std::string& pattern, const std::string& line) {
    SearchBudget budget;
    const auto found = std::get<Pattern>(Pattern::compile(pattern)).captured_in(line, budget);
    return budget.spent() ? "too long" : found.value_or("none");
  };
  CHECK(captured(kSlow, letters) == "too long");
  CHECK(captured("(.*a){20}b?[cd]", letters) == "too long");
  CHECK(captured(R"(\w*?[bc])", letters) == "too long");  // from no offset alone
  CHECK(captured("^(?:a|b)*", letters).size() == Pattern::kLineMax);
  CHECK(captured(R"(\w+[:;])", letters) == "none");
  CHECK(captured(kSlow, "aaab") == "aaa");
  CHECK(captured(R"(\d+ of (\d+))", "7 of 9") == "9");
  CHECK(captured(R"(\d+)", "rank 12") == "12");
  CHECK(std::get<Pattern::Invalid>(Pattern::compile("a(b")).why == "missing closing parenthesis (at character 4)");
}

TEST_CASE("a pattern that takes too long on ten lines is told once and dropped, with what it had found",
          "[output_watch]") {
  const auto monitor = std::make_shared<OutputMonitor>(
      std::vector<OutputRule>{{.pattern = kSlow, .place = "job.toml:1"}},
      std::vector<MetricDefinition>{{.name = "loss", .pattern = kSlow, .place = "job.toml:4"}, {"x", "x=(.*)"}});
  monitor->begin_round(1);
  const auto tap = monitor->tap(1, 0);
  tap("aab\n");
  for (int line = 1; line < LineSearch::kTooLongMax; ++line) tap(letters + "\n");
  CHECK(monitor->finding());
  CHECK(monitor->take_dropped().empty());
  tap(letters + "\n");
  CHECK_FALSE(monitor->finding());
  const auto dropped = monitor->take_dropped();
  REQUIRE(dropped.size() == 2);
  CHECK(dropped[0].whose == "the rule at job.toml:1");
  CHECK(dropped[1].whose == "the metric loss at job.toml:4");
  tap("aab\nx=1\n");
  CHECK_FALSE(monitor->finding());
  CHECK(monitor->take_dropped().empty());
  CHECK(monitor->take_metrics().size() == 1);
}

TEST_CASE("the rules about a failure share one budget for all its last lines, and a slow one hides no other",
          "[output_watch]") {
  std::vector<std::string> lines(20, letters.substr(0, 300));
  lines.push_back("NCCL error");
  const RuleSearch search =
      search_rules({{.pattern = R"(\w*?[bc])", .place = "slow"}, {.pattern = "NCCL", .place = "right"}},
                   FailureClass::error, {.code = 1}, [&] { return lines; });
  CHECK(search.match->place == "right");
  REQUIRE(search.too_slow.size() == 1);
  CHECK(search.too_slow[0].place == "slow");
}

TEST_CASE("metrics are the numbers that lines have, with their last, least and largest value", "[output_metrics]") {
  OutputMetrics metrics(std::vector<MetricDefinition>{{.name = "loss"}, {.name = "epoch"}});
  CHECK(metrics.take_changed().empty());
  metrics.take_line({"0.5", "1"});
  metrics.take_line({"nan", std::nullopt});
  metrics.take_line({"is", std::nullopt});  // no number
  metrics.take_line({"2e-1", std::nullopt});
  const auto changed = metrics.take_changed();
  REQUIRE(changed.size() == 2);
  CHECK(changed[0].name == "loss");
  CHECK(changed[0].last == 0.2);
  CHECK(changed[0].least == 0.2);
  CHECK(changed[0].most == 0.5);
  CHECK(changed[0].count == 3);
  CHECK(changed[1].last == 1);
  CHECK(metrics.take_changed().empty());
  metrics.take_line({"+0.7", std::nullopt});
  REQUIRE(metrics.take_changed().size() == 1);
}

TEST_CASE("a metric that was never a number is nan at its least, too", "[output_metrics]") {
  OutputMetrics metrics(std::vector<MetricDefinition>{{.name = "loss"}});
  metrics.take_line({"nan "});
  CHECK(std::isnan(metrics.take_changed().at(0).least));
  metrics.take_line({"1"});
  CHECK(metrics.take_changed().at(0).least == 1);
}

TEST_CASE("only lines of rank 0 are metrics, in whichever round", "[output_metrics]") {
  const auto shared = std::make_shared<OutputMonitor>(
      std::vector<OutputRule>(), std::vector<MetricDefinition>{{.name = "x", .pattern = "x=(.*)"}});
  shared->begin_round(1, true);
  shared->tap(1, 1)("x=9\n");
  CHECK(shared->take_metrics().empty());
  shared->tap(1, 0)("x=1\nx=2");
  CHECK(shared->take_metrics().at(0).last == 1);
  shared->begin_round(2, false);  // rank 0 is on another node now
  shared->tap(2, 0)("x=3\n");
  CHECK(shared->take_metrics().empty());
}
