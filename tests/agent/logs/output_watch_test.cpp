#include "agent/logs/output_watch.h"

#include "agent/logs/output_metrics.h"
#include "agent/logs/output_monitor.h"
#include "tests/support/test.h"

namespace {

const TimePoint t0{};

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
  watch.take_line(1, "step 1 loss=NaN", t0);
  watch.take_line(1, "saved a snapshot", t0 + 1min);
  CHECK(place_at(watch, t0 + 2min - 1s).empty());
  CHECK(place_at(watch, t0 + 2min) == "loss/1");
  watch.take_line(0, "step 1 loss 0.5", t0 + 2min);  // another rank's
  CHECK(place_at(watch, t0 + 2min) == "loss/1");
  watch.take_line(1, "step 2 loss 0.5", t0 + 2min);
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
  watch.take_line(0, "begins", t0);
  watch.take_line(3, "step 1", t0 + 4min);
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

TEST_CASE("a pattern that takes too many steps does not match, and one that is wrong says where", "[output_watch]") {
  const auto slow = Pattern::compile("(a+)+$");
  CHECK_FALSE(std::get<Pattern>(slow).found_in(std::string(4'000, 'a') + "b"));
  CHECK(std::get<Pattern>(slow).found_in("aaa"));
  CHECK(std::get<Pattern::Invalid>(Pattern::compile("a(b")).why == "missing closing parenthesis (at character 4)");
  CHECK(std::get<Pattern>(Pattern::compile(R"(\d+ of (\d+))")).captured_in("7 of 9") == "9");
  CHECK(std::get<Pattern>(Pattern::compile(R"(\d+)")).captured_in("rank 12") == "12");
}

TEST_CASE("metrics are the numbers that lines have, with their last, least and largest value", "[output_metrics]") {
  OutputMetrics metrics(std::vector<MetricDefinition>{{.name = "loss", .pattern = "loss[ =](\\S+)"},
                                                      {.name = "epoch", .pattern = "epoch (\\d+)"}});
  CHECK(metrics.take_changed().empty());
  metrics.take_line("epoch 1: loss=0.5");
  metrics.take_line("loss nan");
  metrics.take_line("loss is high");  // no number
  metrics.take_line("loss 2e-1");
  const auto changed = metrics.take_changed();
  REQUIRE(changed.size() == 2);
  CHECK(changed[0].name == "loss");
  CHECK(changed[0].last == 0.2);
  CHECK(changed[0].least == 0.2);
  CHECK(changed[0].most == 0.5);
  CHECK(changed[0].count == 3);
  CHECK(changed[1].last == 1);
  CHECK(metrics.take_changed().empty());
  metrics.take_line("loss +0.7");
  REQUIRE(metrics.take_changed().size() == 1);
}

TEST_CASE("a metric that was never a number is nan at its least, too", "[output_metrics]") {
  OutputMetrics metrics(std::vector<MetricDefinition>{{.name = "loss", .pattern = "loss (.*)"}});
  metrics.take_line("loss nan ");
  CHECK(std::isnan(metrics.take_changed().at(0).least));
  metrics.take_line("loss 1");
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
