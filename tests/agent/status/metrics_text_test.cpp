// Metrics as text: testdata/metrics.txt and metrics_open.txt, rewritten by DDPRUN_UPDATE=1.
#include "agent/status/metrics_text.h"

#include <nlohmann/json.hpp>

#include <asio/read.hpp>
#include <asio/read_until.hpp>
#include <asio/write.hpp>

#include "agent/http/http_server.h"
#include "agent/status/otlp_json.h"
#include "tests/support/test.h"
#include "tests/support/transcript.h"

using nlohmann::json;

namespace {

const std::string kFolder = test::source_folder() + "/tests/agent/testdata/";

RankView trains(int rank) {
  return {.rank = rank,
          .activity = Activity::wait,
          .collective = "grads",
          .step = 4127,
          .age = 1500ms,
          .snapshot_step = 4100,
          .snapshot_age = 5200ms,
          .snapshot_bytes = rank == 0 ? std::uint64_t{49} << 20 : 0,
          .samples_per_second = 512,
          .loss = 0.25,
          .total_steps = 9000,
          .memory = std::uint64_t{3} << 30,
          .load = 1s,
          .compute = 30500ms,
          .wait = 2s,
          .pid = 4711};
}

MetricsValues some_values() {
  JobView job{.phase = JobPhase::running, .since = 725s, .round = 3, .term = 1, .nodes_min = 2, .nodes_max = 4};
  job.world_size = 4;
  job.restarts_max = 3;
  job.counts = {.crashes = 1, .hangs = 1, .lost_nodes = 2, .preemptions = 1};
  job.nodes = {{.id = 1, .name = "n0"}, {.id = 2, .name = "n1"}, {.id = 3, .name = "n2", .place = NodePlace::spare}};
  job.slow = {{.rank = 3, .phase = Activity::compute, .percent = 140}};
  JobMeasures measures;
  measures.waits_for_round(TimePoint());
  measures.workers_run(TimePoint() + 2s);
  measures.steps_done(8, 1s);
  measures.steps_done(10, 21s);
  measures.failed(FailureClass::out_of_memory);
  measures.round_ended("crash", TimePoint() + 100s);
  measures.waits_for_round(TimePoint() + 101s);
  measures.workers_run(TimePoint() + 103s);
  measures.snapshot_stall = 1500ms;
  measures.oom_kills = 2;
  measures.store = {{{"get", 12}, {"set", 3}}, 4};
  NodeReport node{.round = 3, .name = "n\"0\\", .step_us = 125'000, .ranks = {trains(0), {.rank = 1, .pid = 4712}}};
  return {.version = "1.2.3",
          .ready = true,
          .measures = measures,
          .status = {.run_id = "mnist\n", .host = "n\"0\\", .run_time = 800s, .job = job, .nodes = {node}}};
}

std::set<std::string> names_in(const std::string& text, const std::regex& pattern) {
  std::set<std::string> out;
  for (std::sregex_iterator one(text.begin(), text.end(), pattern), end; one != end; ++one) out.insert((*one)[1]);
  return out;
}

double ms_since(TimePoint begin) { return std::chrono::duration<double, std::milli>(Clock::now() - begin).count(); }

}  // namespace

TEST_CASE("the metrics of a job and of a node's ranks, in both formats", "[metrics]") {
  const std::string plain = metrics_text(some_values(), MetricsFormat::prometheus);
  const std::string open = metrics_text(some_values(), MetricsFormat::open_metrics);
  for (const auto& [file, text] : {std::pair(kFolder + "metrics.txt", plain), {kFolder + "metrics_open.txt", open}})
    if (!test::matches_golden(file, text)) CHECK(text == test::read_file(file));
  CHECK_FALSE(has(plain, "4711"));  // no process id
}

TEST_CASE("the same metrics as OTLP's JSON", "[metrics][push]") {
  const std::string otlp =
      otlp_json(some_values(), {{"service.name", "ddprun"}},
                {.now = 1'800'000'000'000'000'000, .start = 1'700'000'000'000'000'000, .round = 5});
  const json request = json::parse(otlp);
  const std::string shown = request.dump(1) + "\n", file = kFolder + "metrics_otlp.json";
  if (!test::matches_golden(file, shown)) CHECK(shown == test::read_file(file));
  std::set<std::string> names;
  for (const json& metric : request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]) {
    const std::string suffix = metric.contains("sum") ? "_total" : "";
    names.insert(metric["name"].get<std::string>() + suffix);
  }
  const std::string text = metrics_text(some_values(), MetricsFormat::prometheus);
  CHECK(names == names_in(text, std::regex("(?:^|\n)(ddprun_[a-z_]+?)(?:_bucket|_sum|_count)?[{ ]")));
}

TEST_CASE("without a coordinator the metrics of the whole job are left out", "[metrics]") {
  MetricsValues values = some_values();
  values.status.job.reset();
  const std::string text = metrics_text(values, MetricsFormat::prometheus);
  CHECK(has(text, "ddprun_coordinator_reachable 0\n"));
  CHECK(has(text, "ddprun_step{"));
  for (const char* of_job :
       {"ddprun_round ", "ddprun_nodes", "ddprun_restarts", "ddprun_elections", "ddprun_job_state"})
    CHECK_FALSE(has(text, of_job));
}

TEST_CASE("no two samples have the same name and labels, and every metric has its type once", "[metrics]") {
  for (const MetricsFormat format : {MetricsFormat::prometheus, MetricsFormat::open_metrics}) {
    std::istringstream lines(metrics_text(some_values(), format));
    std::set<std::string> seen;
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(seen.insert(line.starts_with('#') ? line : line.substr(0, line.rfind(' '))).second);
    }
  }
}

TEST_CASE("every metric is in its page, and dashboard and alerts use no others", "[metrics]") {
  const std::string text = metrics_text(some_values(), MetricsFormat::prometheus);
  const std::set<std::string> all = names_in(text, std::regex("# TYPE (ddprun_[a-z_]+)"));
  const std::regex name("(ddprun_[a-z_]+)");
  const std::string folder = test::source_folder();
  CHECK(names_in(test::read_file(folder + "/docs/metrics.md"), std::regex("`(ddprun_[a-z_]+)")) == all);
  for (const char* file : {"ddprun-alerts.yaml", "ddprun-grafana.json"}) {
    std::set<std::string> used;
    for (const std::string& one : names_in(test::read_file(folder + "/scripts/monitoring/" + file), name))
      used.insert(std::regex_replace(one, std::regex("_seconds_(bucket|sum|count)$"), "_seconds"));  // of a histogram
    CAPTURE(file, used);
    CHECK(used.size() > 5);
    CHECK(std::includes(all.begin(), all.end(), used.begin(), used.end()));
  }
}

TEST_CASE("the format is the one that the client prefers", "[metrics]") {
  const auto format = [](const char* accept) { return metrics_format(accept) == MetricsFormat::open_metrics; };
  CHECK_FALSE(format(""));
  CHECK_FALSE(format("*/*"));
  CHECK_FALSE(format("text/plain;version=0.0.4"));
  CHECK(format("application/openmetrics-text"));
  CHECK(
      format("application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
             "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"));
  CHECK(format("text/plain ; q=0.3 , application/openmetrics-text ; version=1.0.0"));
  CHECK_FALSE(format("application/openmetrics-text;version=1.0.0;q=0.2,text/plain;q=0.3"));
  CHECK_FALSE(format("application/openmetrics-text;version=2.0.0"));
  CHECK_FALSE(format("application/openmetrics-text;q=0"));
  CHECK_FALSE(format(",;=;,q=;version"));
}

TEST_CASE("how long a scrape of 1,024 ranks takes over HTTP, and their text alone", "[.measure]") {
  MetricsValues values = some_values();
  values.status.nodes[0].ranks.clear();
  for (int rank = 0; rank < 1024; ++rank) values.status.nodes[0].ranks.push_back(trains(rank));
  asio::io_context io, of_client;
  HttpServer server(io, open_listener("127.0.0.1", 0), [&](const HttpRequest&, const HttpServer::Answer& answer) {
    answer({.body = metrics_text(values, MetricsFormat::prometheus)});
  });
  std::thread serving([&] { io.run(); });
  asio::ip::tcp::socket client(of_client);
  client.connect({asio::ip::address_v4::loopback(), server.port()});
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  std::vector<double> took;
  for (int i = 0; i < 200; ++i) {
    const auto begin = Clock::now();
    asio::write(client, asio::buffer(request));
    std::string answer;
    const std::size_t head = asio::read_until(client, asio::dynamic_buffer(answer), "\r\n\r\n");
    const std::size_t size = std::stoul(answer.substr(answer.find("Content-Length: ") + 16));
    answer.resize(head + size < answer.size() ? head + size : answer.size());
    asio::read(client, asio::dynamic_buffer(answer), asio::transfer_exactly(head + size - answer.size()));
    took.push_back(ms_since(begin));
  }
  io.stop();
  serving.join();
  std::sort(took.begin(), took.end());
  std::printf("a scrape of 1,024 ranks: median %.2f ms, 99th percentile %.2f ms\n", took[100], took[198]);

  const auto text_begin = Clock::now();
  constexpr int kTimes = 100;
  std::size_t bytes = 0;
  for (int i = 0; i < kTimes; ++i) bytes = metrics_text(values, MetricsFormat::prometheus).size();
  std::printf("1,024 ranks: %zu bytes in %.2f ms\n", bytes, ms_since(text_begin) / kTimes);
  const auto otlp_begin = Clock::now();
  bytes = otlp_json(values, {}, {}).size();
  std::printf("by OTLP: %zu bytes in %.2f ms\n", bytes, ms_since(otlp_begin));
}
