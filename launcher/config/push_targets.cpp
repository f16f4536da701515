#include "launcher/config/push_targets.h"

#include <charconv>
#include <vector>

#include "agent/push/otel_list.h"
#include "rendezvous/base/error.h"

namespace ddprun::launcher {
namespace {

using std::chrono::milliseconds;

constexpr const char* kMetricsPath = "/v1/metrics";
constexpr milliseconds kIntervalMin{1000}, kTimeMax{24 * 3600 * 1000};

struct Variable {
  std::string name = {}, text = {};
};

// The first that is set and not empty.
std::optional<Variable> first_set(const agent::Environment& environment, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (const auto found = environment.find(name); found != environment.end() && !found->second.empty())
      return Variable{name, found->second};
  return {};
}

[[noreturn]] void refuse(const Variable& variable, const std::string& takes) {
  throw UsageError("cannot push metrics (--otlp)", variable.name + " in the environment is wrong: " + takes,
                   "Set it right, or unset it for ddprun.");
}

Duration time_of(const agent::Environment& environment, const std::vector<std::string>& names, Duration otherwise) {
  const auto variable = first_set(environment, names);
  if (!variable) return otherwise;
  long long count = 0;
  const char* end = variable->text.data() + variable->text.size();
  const auto read = std::from_chars(variable->text.data(), end, count);
  if (read.ec != std::errc() || read.ptr != end || count <= 0 || count > kTimeMax.count())
    refuse(*variable, "it takes milliseconds, from 1 to a day, such as 60000");
  return milliseconds(count);
}

agent::HttpHeaders list_of(const agent::Environment& environment, const std::vector<std::string>& names) {
  const auto variable = first_set(environment, names);
  if (!variable) return {};
  const auto list = agent::parse_otel_list(variable->text);
  if (!list) refuse(*variable, "it takes KEY=VALUE,KEY=VALUE, with percent-encoded values");
  return *list;
}

void check_protocol(const agent::Environment& environment) {
  const auto protocol = first_set(environment, {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"});
  if (protocol && protocol->text == "grpc")
    throw UsageError("cannot push metrics (--otlp env)", protocol->name + " is grpc, and ddprun pushes over HTTP",
                     "Give the collector's URL for HTTP, often with port 4318: --otlp http://HOST:4318.");
}

agent::HttpUrl url_of(const Variable& from) {
  const auto url = agent::parse_url(from.text);
  if (const auto* complaint = std::get_if<std::string>(&url)) refuse(from, *complaint);
  return std::get<agent::HttpUrl>(url);
}

// By OpenTelemetry: the metrics' own URL is taken as it is; that of all signals gets a path.
agent::HttpUrl url_of_environment(const agent::Environment& environment) {
  check_protocol(environment);
  if (const auto own = first_set(environment, {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"})) return url_of(*own);
  const auto base = first_set(environment, {"OTEL_EXPORTER_OTLP_ENDPOINT"});
  if (!base)
    throw UsageError("cannot push metrics (--otlp env)",
                     "neither OTEL_EXPORTER_OTLP_METRICS_ENDPOINT nor OTEL_EXPORTER_OTLP_ENDPOINT is set",
                     "Set one of them, or give a URL: --otlp http://HOST:4318.");
  agent::HttpUrl url = url_of(*base);
  while (url.target.ends_with('/')) url.target.pop_back();
  url.target += kMetricsPath;
  return url;
}

agent::HttpUrl url_of_option(const std::string& otlp) {
  agent::HttpUrl url = url_of({"--otlp", otlp});
  if (url.target.empty() || url.target == "/") url.target = kMetricsPath;
  return url;
}

std::string text_of(const agent::Environment& environment, const char* name) {
  const auto found = first_set(environment, {name});
  return found ? found->text : "";
}

}  // namespace

std::optional<agent::OtlpOptions> otlp_options(const std::string& otlp, const agent::Environment& environment) {
  if (otlp.empty()) return {};
  agent::OtlpOptions out;
  out.url = otlp == "env" ? url_of_environment(environment) : url_of_option(otlp);
  out.headers = list_of(environment, {"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"});
  out.attributes = list_of(environment, {"OTEL_RESOURCE_ATTRIBUTES"});
  const auto authority =
      first_set(environment, {"OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"});
  if (authority) out.authority = authority->text;
  out.interval = std::max<Duration>(kIntervalMin, time_of(environment, {"OTEL_METRIC_EXPORT_INTERVAL"}, out.interval));
  out.within = time_of(environment, {"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"}, out.within);
  return out;
}

std::optional<agent::KubeflowOptions> kubeflow_options(const agent::Environment& environment) {
  agent::KubeflowOptions out;
  out.url = text_of(environment, "KUBEFLOW_TRAINER_SERVER_URL");
  if (out.url.empty()) return {};
  out.authority_file = text_of(environment, "KUBEFLOW_TRAINER_SERVER_CA_CERT");
  out.token_file = text_of(environment, "KUBEFLOW_TRAINER_SERVER_TOKEN");
  return out;
}

}  // namespace ddprun::launcher
