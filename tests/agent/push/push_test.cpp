#include <nlohmann/json.hpp>

#include "agent/push/kubeflow_status.h"
#include "agent/push/otel_list.h"
#include "agent/push/push_schedule.h"
#include "agent/push/pusher.h"
#include "tests/support/test.h"

using nlohmann::json;

namespace {

const TimePoint kStart = TimePoint() + 1h;

json status_of(const TrainingProgress& progress) {
  return json::parse(kubeflow_status(progress, 1'769'164'245)).at("trainerStatus");
}

}  // namespace

TEST_CASE("pushes are at an interval, and those that were missed are left out", "[push]") {
  PushSchedule schedule(60s, kStart);
  CHECK(schedule.next() == kStart + 60s);
  schedule.taken(kStart + 61s);
  CHECK(schedule.next() == kStart + 120s);
  schedule.taken(kStart + 500s);
  CHECK(schedule.next() > kStart + 500s);
  CHECK(schedule.next() <= kStart + 560s);
}

TEST_CASE("after failures pushes come later and later, and when the receiver wants them", "[push]") {
  PushSchedule schedule(60s, kStart);
  schedule.failed(kStart, {});
  CHECK(schedule.next() == kStart + 60s);
  schedule.failed(kStart, {});
  CHECK(schedule.next() == kStart + 120s);
  for (int i = 0; i < 100; ++i) schedule.failed(kStart, {});
  CHECK(schedule.next() == kStart + 600s);
  schedule.failed(kStart, 700s);
  CHECK(schedule.next() == kStart + 700s);
  CHECK(schedule.is_failing());
  schedule.taken(kStart + 700s);
  CHECK_FALSE(schedule.is_failing());
  schedule.failed(kStart + 800s, 1s);  // sooner than the interval is not wanted
  CHECK(schedule.next() == kStart + 860s);
  PushSchedule rare(1h, kStart);
  rare.failed(kStart, {});
  CHECK(rare.next() == kStart + 1h);
}

TEST_CASE("lists of OpenTelemetry's variables are percent-encoded pairs", "[push]") {
  CHECK(parse_otel_list("api-key=a%20b, x = y=z ,") == OtelPairs{{"api-key", "a b"}, {"x", "y=z"}});
  CHECK(parse_otel_list("")->empty());
  for (const char* wrong : {"a", "=b", "a b=c", "a=%2", "a=%zz", "a=%0d%0aHost: b", "a=\n"})
    CHECK_FALSE(parse_otel_list(wrong));
  CHECK_FALSE(parse_otel_list("a=" + std::string(kOtelListMax, 'x')));
}

TEST_CASE("Kubeflow is told what is known of the progress, and no more", "[push][kubeflow]") {
  const json little = status_of({.step = 7});
  CHECK(little == json{{"lastUpdatedTime", "2026-01-23T10:30:45Z"}, {"metrics", {{{"name", "step"}, {"value", "7"}}}}});
  const json all = status_of({.step = 45,
                              .steps_total = 100,
                              .steps_per_second = 2.0,
                              .samples_per_second = 512.0,
                              .measured = {{"loss", 0.25}, {"nothing", NAN}}});
  CHECK(all["progressPercentage"] == 45);
  CHECK(all["estimatedRemainingSeconds"] == 28);
  CHECK(
      all["metrics"].dump() ==
      R"([{"name":"step","value":"45"},{"name":"total_steps","value":"100"},{"name":"steps_per_second","value":"2"},)"
      R"({"name":"samples_per_second","value":"512"},{"name":"loss","value":"0.25"},{"name":"nothing","value":"NaN"}])");
}

TEST_CASE("progress is 100 percent only at the job's end, whatever the total", "[push][kubeflow]") {
  CHECK(status_of({.step = 100, .steps_total = 100})["progressPercentage"] == 99);
  CHECK(status_of({.step = 200, .steps_total = 100, .steps_per_second = 1.0})["progressPercentage"] == 99);
  CHECK_FALSE(status_of({.step = 1, .steps_total = 0}).contains("progressPercentage"));
  CHECK(status_of({.step = 3, .done = true})["progressPercentage"] == 100);
  CHECK(status_of({.step = 3, .done = true})["estimatedRemainingSeconds"] == 0);
  const json slow = status_of({.step = 1, .steps_total = ~0ULL, .steps_per_second = 1e-9});
  CHECK(slow["estimatedRemainingSeconds"] == 2147483647);
  std::vector<std::pair<std::string, double>> many(100, {"m", 1.0});
  CHECK(status_of({.step = 1, .measured = many})["metrics"].size() == kKubeflowMetricsMax);
}

TEST_CASE("a failure of what is pushed is said once, and the end does not wait for a receiver that fails", "[push]") {
  asio::io_context io;
  std::vector<std::string> said;
  int collected = 0;
  Pusher pusher(io, {"metrics", "http://there", 1ms, 1s},
                {[&](const Pusher::Ready&) {
                   ++collected;
                   throw std::runtime_error("the token is empty");
                 },
                 [&](const std::string& line) { said.push_back(line); }});
  while (collected < 3) io.run_one_for(100ms);
  CHECK(said.size() == 1);
  CHECK(said.at(0).starts_with("cannot push metrics to http://there: the token is empty. "));
  bool done = false;
  pusher.finish(1h, [&] { done = true; });
  CHECK(done);
}

TEST_CASE("the end waits for a receiver that does not answer as long as it says", "[push]") {
  asio::io_context io;
  bool done = false;
  Pusher pusher(io, {"metrics", "http://there", 1h, 1h}, {[](const Pusher::Ready&) {}, [](const std::string&) {}});
  pusher.finish(10ms, [&] { done = true; });
  while (!done) io.run_one_for(100ms);
}
