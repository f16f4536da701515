// --metrics: what this node's HTTP port answers. /metrics has the job's figures and those of the ranks here.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/agent.h"
#include "agent/diagnosis/evidence.h"
#include "agent/http/http_access.h"
#include "agent/http/https.h"
#include "agent/status/metrics_text.h"
#include "agent/status/status_json.h"

namespace ddprun::agent {

namespace {

// In our own control group, where it tells; else on the whole machine.
std::optional<std::uint64_t> oom_kills() {
  const OomCounts counts = read_oom_counts();
  return counts.groups.empty() ? counts.machine : counts.groups.front().kills;
}

// As restarts are counted.
std::string cause_of(const rendezvous::EndRound& end) {
  if (!end.cause) return end.planned ? "planned" : "lost_node";
  std::string name = rendezvous::name_of(end.cause->kind);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace

void Agent::open_metrics() {
  if (!options_.metrics && !options_.otlp) return;
  measures_.emplace();
  oom_kills_at_start_ = oom_kills();
  if (!options_.metrics) return;
  const rendezvous::Listening listening =
      rendezvous::open_listener(options_.metrics->address, options_.metrics->port, {"the metrics", "--metrics"});
  OpenTls tls;
  if (!options_.metrics->certificate.empty())
    tls = https_server(options_.metrics->certificate, options_.metrics->key,
                       [this](const std::string& line) { pipes_.print("ddprun: " + line + ".\n"); });
  http_.emplace(
      io_, listening,
      [this](const HttpRequest& request, const HttpServer::Answer& answer) { on_http(request, answer); }, HttpLimits(),
      std::move(tls));
}

void Agent::measure_end(const rendezvous::EndRound& end) {
  if (measures_ && seat_ && seat_->round == end.round) measures_->round_ended(cause_of(end), Clock::now());
}

// Of the worker here with the lowest rank: by its beats, else by its reports.
void Agent::measure_steps(const std::map<int, WorkerSight>& seen) {
  if (!measures_ || seen.empty()) return;
  const WorkerSight& first = seen.begin()->second;
  if (seen.begin()->first != 0 || !first.at || !workers_run_since_) return;
  measures_->steps_done(first.steps_done, first.beats ? first.in_steps : *first.at - *workers_run_since_);
}

std::optional<JobMeasures> Agent::measures_now() {
  if (!measures_) return {};
  JobMeasures out = *measures_;
  if (const auto spent = account_.closed() ? std::nullopt : account_.spent()) out.snapshot_stall += spent->save;
  if (const auto kills = oom_kills(); kills && oom_kills_at_start_)
    out.oom_kills = *kills - std::min(*kills, *oom_kills_at_start_);
  const rendezvous::Server::Counts store = store_.counts();
  out.store.connections = store.connections;
  for (std::size_t op = 0; op < store.requests.size(); ++op)
    out.store.requests.emplace_back(rendezvous::kOpNames[op], store.requests[op]);
  return out;
}

void Agent::start_page() {
  if (!options_.metrics || !options_.metrics->page) return;
  page_.emplace(io_, *http_, [this](const auto& take) { ask_for_status_json(take); });
  page_->start();
}

void Agent::announce_metrics() {
  if (http_ && (log_.at(LogLevel::info) || isatty(STDERR_FILENO)))
    reporter_.metrics_are_at(!options_.metrics->certificate.empty(), options_.metrics->address, http_->port());
}

// Whether it lives and is ready says nothing of the job, and who checks that has no token.
void Agent::on_http(const HttpRequest& request, const HttpServer::Answer& answer) {
  if (request.path == "/healthz") return answer({.body = "ok\n"});
  if (request.path == "/readyz") return answer(readiness());
  if (request.path == "/" && options_.metrics->page) return answer(page_document());
  const bool by_tls = !options_.metrics->certificate.empty();
  if (const auto refusal = refusal_of(request, options_.metrics->token, by_tls)) return answer(*refusal);
  if (request.path == "/live" && page_) return page_->open(answer);
  if (request.path == "/metrics")
    return collect_metrics([answer, format = metrics_format(request.accept)](const MetricsValues& values) {
      answer({.content_type = content_type(format), .body = metrics_text(values, format)});
    });
  if (request.path != "/status") return answer(http_line(404, "here are /metrics, /status, /healthz and /readyz"));
  ask_for_status([answer](const std::string& json) { answer({.content_type = "application/json", .body = json}); });
}

bool Agent::is_ready() const { return supervisor_.running_round() || succeeded_; }

// A node whose workers have ended well is ready while it waits for the others: there is nothing to mend.
HttpResponse Agent::readiness() const {
  if (succeeded_) return {.body = "the job has ended well\n"};
  if (const auto round = supervisor_.running_round()) return {.body = "round " + std::to_string(*round) + " runs\n"};
  return http_line(503, "no round runs on this node, which is " + supervisor_.state_name());
}

// Those that come while the coordinator is asked get the same answer.
void Agent::collect_metrics(TakeMetrics take) {
  want_metrics_.push_back(std::move(take));
  if (want_metrics_.size() > 1) return;
  const auto answer = [this](const StatusAnswer& status) { hand_out_metrics(status); };
  if (finished_ || !contact_.coordination().connected()) return answer({});
  const int serial = asked_status_.begin(answer, /*job_only=*/true);
  contact_.send(rendezvous::StatusWanted{node(), serial, /*job_only=*/true});
}

void Agent::hand_out_metrics(StatusAnswer status) {
  status.nodes = {report()};
  add_self(status);
  const MetricsValues values{options_.version, is_ready(), measures_now(), std::move(status)};
  for (const TakeMetrics& take : std::exchange(want_metrics_, {})) take(values);
}

}  // namespace ddprun::agent
