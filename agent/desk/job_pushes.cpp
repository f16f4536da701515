#include "agent/desk/job_pushes.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "agent/http/http_syntax.h"
#include "agent/http/https.h"
#include "agent/process/files/regular_file.h"
#include "agent/push/kubeflow_status.h"
#include "agent/status/otlp_json.h"

namespace ddprun::agent {
namespace {

using std::chrono::duration_cast;
using std::chrono::system_clock;

constexpr std::chrono::seconds kLastPushWithin{1};
constexpr std::size_t kAuthorityMax = 1 << 20, kBearerMax = 16 << 10;

std::uint64_t unix_ns(system_clock::time_point at) {
  return static_cast<std::uint64_t>(duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count());
}

// By the clock of today: one that was set meanwhile moves all times alike.
std::uint64_t unix_ns(TimePoint at) {
  return unix_ns(system_clock::now() - duration_cast<system_clock::duration>(Clock::now() - at));
}

std::string read_or_throw(const std::string& file, std::size_t bytes_max, const std::string& what, FileThread& files) {
  const std::string name = what + " " + file;
  auto text = files.ask(name, [file, bytes_max] { return beginning_of_file(file, bytes_max); });
  if (!text) throw std::runtime_error(name + " cannot be read now");
  if (text->empty()) throw std::runtime_error(name + " is empty or cannot be read");
  return std::move(*text);
}

// They may be renewed at any time, so they are read for every push.
OpenTls tls_to(const HttpUrl& url, const std::string& authority_file, FileThread& files) {
  if (!url.https) return {};
  if (authority_file.empty()) return https_client(url.host, {});
  std::string text = read_or_throw(authority_file, kAuthorityMax, "the authority", files);
  return https_client(url.host, {.authority = NamedText{authority_file, std::move(text)}});
}

HttpHeaders bearer(const std::string& token_file, FileThread& files) {
  if (token_file.empty()) return {};
  std::string token = read_or_throw(token_file, kBearerMax, "the token", files);
  token.erase(token.find_last_not_of("\r\n \t") + 1);
  if (!is_printable_word(token) || token.empty())
    throw std::runtime_error("the token " + token_file + " is not one line of ASCII");
  return {{"Authorization", "Bearer " + token}};
}

}  // namespace

JobPushes::JobPushes(asio::io_context& io, PushOptions options, FileThread& files, Hooks hooks)
    : io_(io), options_(std::move(options)), files_(files), hooks_(std::move(hooks)) {}

void JobPushes::start() {
  const auto& say = hooks_.say;
  if (const auto& to = options_.otlp)
    otlp_.emplace(io_, Pusher::Options{"metrics", shown(to->url), to->interval, to->within},
                  Pusher::Hooks{[this](const Pusher::Ready& ready) { collect_metrics(ready); }, say});
  if (!options_.kubeflow) return;
  const auto url = parse_url(options_.kubeflow->url);
  if (const auto* complaint = std::get_if<std::string>(&url))
    return say("cannot push progress to Kubeflow Trainer: KUBEFLOW_TRAINER_SERVER_URL is no URL: " + *complaint);
  kubeflow_.emplace(io_,
                    Pusher::Options{"progress", shown(std::get<HttpUrl>(url)), options_.kubeflow->interval,
                                    options_.kubeflow->within},
                    Pusher::Hooks{[this](const Pusher::Ready& ready) { collect_progress(ready); }, say});
}

void JobPushes::collect_metrics(const Pusher::Ready& ready) {
  OpenTls tls = tls_to(options_.otlp->url, options_.otlp->authority, files_);
  hooks_.metrics([this, ready, tls](const MetricsValues& values) {
    MetricLabels resource = {{"service.name", "ddprun"},
                             {"service.version", options_.version},
                             {"service.instance.id", options_.host + ":" + std::to_string(getpid())},
                             {"host.name", options_.host},
                             {"ddprun.run_id", options_.run_id}};
    for (const auto& one : options_.otlp->attributes)
      if (std::none_of(resource.begin(), resource.end(), [&](const auto& own) { return own.first == one.first; }))
        resource.emplace_back(one.first, one.second);
    const OtlpTimes times{unix_ns(system_clock::now()), unix_ns(started_), round_began_ ? unix_ns(*round_began_) : 0};
    ready(HttpPost{options_.otlp->url, options_.otlp->headers, otlp_json(values, resource, times), tls});
  });
}

// Only of workers that report steps: others may push their own progress.
void JobPushes::collect_progress(const Pusher::Ready& ready) {
  auto report = hooks_.with_rank_0();
  if (!report) return ready({});
  StatusAnswer here;
  here.nodes = {std::move(*report)};
  const JobSummary summary = summary_of(here);
  const auto& spent = here.nodes.front().spent;
  if (summary.total_steps) total_steps_ = summary.total_steps;
  if (summary.loss) loss_ = summary.loss;
  if (summary.step)
    last_step_ = summary.step;
  else if (spent && spent->last_step)
    last_step_ = spent->last_step;
  if (!last_step_) return ready({});
  TrainingProgress progress{.step = *last_step_,
                            .steps_total = total_steps_,
                            .steps_per_second = summary.steps_per_second,
                            .done = hooks_.succeeded()};
  double samples = 0;
  for (const rendezvous::RankView& rank : here.nodes.front().ranks) samples += rank.samples_per_second;
  if (samples > 0) progress.samples_per_second = samples;
  if (loss_ && !measured_.contains("loss")) progress.measured.emplace_back("loss", *loss_);
  progress.measured.insert(progress.measured.end(), measured_.begin(), measured_.end());
  const HttpUrl url = std::get<HttpUrl>(parse_url(options_.kubeflow->url));
  ready(HttpPost{url, bearer(options_.kubeflow->token_file, files_),
                 kubeflow_status(progress, static_cast<std::int64_t>(unix_ns(system_clock::now()) / 1'000'000'000)),
                 tls_to(url, options_.kubeflow->authority_file, files_)});
}

void JobPushes::push_last(const std::function<void()>& done) {
  const auto then = [this, done] {
    if (kubeflow_) return kubeflow_->finish(kLastPushWithin, done);
    done();
  };
  if (otlp_) return otlp_->finish(kLastPushWithin, then);
  then();
}

}  // namespace ddprun::agent
