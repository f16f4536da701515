#include "launcher/config/push_targets.h"

#include "rendezvous/base/error.h"
#include "tests/support/test.h"

namespace {

std::string url_of(const std::string& otlp, const Environment& environment = {}) {
  return agent::shown(otlp_options(otlp, environment)->url);
}

std::string refusal_of(const std::string& otlp, const Environment& environment) {
  return error_text<UsageError>([&] { otlp_options(otlp, environment); });
}

}  // namespace

TEST_CASE("without --otlp nothing is pushed, whatever the environment holds", "[push]") {
  CHECK_FALSE(otlp_options("", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"}, {"OTEL_METRIC_EXPORT_INTERVAL", "x"}}));
}

TEST_CASE("the URL of the option is taken as it is, and gets a path where it has none", "[push]") {
  const Environment elsewhere = {{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://elsewhere/"},
                                 {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}};
  CHECK(url_of("http://a:4318", elsewhere) == "http://a:4318/v1/metrics");
  CHECK(url_of("https://a/") == "https://a/v1/metrics");
  CHECK(url_of("https://a/otlp/x") == "https://a/otlp/x");
}

TEST_CASE("env takes the URL as OpenTelemetry's specification says", "[push]") {
  CHECK(url_of("env", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318"}}) == "http://a:4318/v1/metrics");
  CHECK(url_of("env", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a/b/"}}) == "http://a/b/v1/metrics");
  CHECK(url_of("env", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a"},
                       {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m/here"}}) == "http://m/here");
  CHECK(has(refusal_of("env", {}), "neither OTEL_EXPORTER_OTLP_METRICS_ENDPOINT nor"));
  CHECK(has(refusal_of("env", {{"OTEL_EXPORTER_OTLP_ENDPOINT", ""}}), "neither"));
  CHECK(has(refusal_of("env", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "a:4317"}}), "OTEL_EXPORTER_OTLP_ENDPOINT in the"));
  CHECK(has(
      refusal_of("env", {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4317"}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}}),
      "OTEL_EXPORTER_OTLP_PROTOCOL is grpc"));
}

TEST_CASE("headers, times and the authority are the environment's", "[push]") {
  const auto out = otlp_options("http://a", {{"OTEL_EXPORTER_OTLP_HEADERS", "x=1"},
                                             {"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "api-key=a%3Db"},
                                             {"OTEL_METRIC_EXPORT_INTERVAL", "5000"},
                                             {"OTEL_EXPORTER_OTLP_TIMEOUT", "300"},
                                             {"OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem"},
                                             {"OTEL_RESOURCE_ATTRIBUTES", "a.b=c"}});
  CHECK(out->headers == HttpHeaders{{"api-key", "a=b"}});
  CHECK(out->attributes == HttpHeaders{{"a.b", "c"}});
  CHECK(out->interval == 5s);
  CHECK(out->within == 300ms);
  CHECK(out->authority == "ca.pem");
  CHECK(otlp_options("http://a", {})->interval == 60s);
  CHECK(otlp_options("http://a", {})->within == 10s);
  CHECK(otlp_options("http://a", {{"OTEL_METRIC_EXPORT_INTERVAL", "1"}})->interval == 1s);
  for (const char* wrong : {"0", "-1", "1s", "99999999999999999999"})
    CHECK(has(refusal_of("http://a", {{"OTEL_METRIC_EXPORT_INTERVAL", wrong}}), "it takes milliseconds"));
  CHECK(has(refusal_of("http://a", {{"OTEL_EXPORTER_OTLP_HEADERS", "a=%0d%0ab"}}), "KEY=VALUE"));
}

TEST_CASE("Kubeflow Trainer is told progress where it has started the job", "[push][kubeflow]") {
  CHECK_FALSE(kubeflow_options({}));
  CHECK_FALSE(kubeflow_options({{"KUBEFLOW_TRAINER_SERVER_URL", ""}}));
  const auto out = kubeflow_options({{"KUBEFLOW_TRAINER_SERVER_URL", "https://t"},
                                     {"KUBEFLOW_TRAINER_SERVER_CA_CERT", "ca"},
                                     {"KUBEFLOW_TRAINER_SERVER_TOKEN", "t"}});
  CHECK(out->url == "https://t");
  CHECK(out->authority_file == "ca");
  CHECK(out->token_file == "t");
}
