#include "agent/desk/desk.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "agent/diagnosis/evidence.h"
#include "agent/http/http_access.h"
#include "agent/http/https.h"
#include "agent/status/status_json.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/overloaded.h"
#include "rendezvous/peer/listen_socket.h"

namespace ddprun::agent {
namespace {

constexpr const char* kOutOfReach = "the coordinator is out of reach now";
constexpr std::chrono::seconds kStatusLimit{2}, kActLimit{5}, kAllStacksLimit{10};
constexpr std::chrono::seconds kOutputLimit{6};  // the node of that rank may wait for some

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

std::string one_line(const nlohmann::json& status) { return json_text(status) + "\n"; }

// A node whose workers have ended well is ready while it waits for the others: there is nothing to mend.
HttpResponse readiness(const Desk::NodeState& node) {
  if (node.succeeded) return {.body = "the job has ended well\n"};
  if (node.running_round) return {.body = "round " + std::to_string(*node.running_round) + " runs\n"};
  return http_line(503, "no round runs on this node, which is " + node.name);
}

}  // namespace

Desk::Desk(asio::io_context& io, DeskOptions options, Hooks hooks)
    : io_(io),
      options_(std::move(options)),
      view_(options_.push.host, std::move(hooks.view)),
      last_output_(io, std::move(hooks.passed)),
      rank_output_(io, options_.push.host, options_.output, std::move(hooks.complete_output)),
      hooks_(std::move(hooks)),
      files_([this](const std::string& sentence) { hooks_.say(sentence); }, {.last_write_limit = Duration::zero()}),
      questions_(io),
      history_(io, {[this] { return view_.report(); }, [this] { return page_ && page_->is_open(); }}),
      pushes_(io, options_.push, files_, push_hooks()) {
  if (options_.metrics || options_.push.otlp) {
    measures_.emplace();
    oom_kills_at_start_ = oom_kills();
  }
  if (options_.metrics) open_http();
}

JobPushes::Hooks Desk::push_hooks() {
  return {[this](const auto& take) { collect_metrics(take); },
          [this] { return view_.has_rank_0() ? std::optional(view_.report()) : std::nullopt; },
          [this] { return hooks_.state().succeeded; }, [this](const std::string& sentence) { hooks_.say(sentence); }};
}

void Desk::on_message(const rendezvous::AskNodes& m) {
  const auto send = [this, asker = m.asker, serial = m.serial](rendezvous::NodeAnswer answer) {
    if (const auto node = hooks_.node()) hooks_.send(rendezvous::Answered{*node, asker, serial, std::move(answer)});
  };
  std::visit(overloaded{
                 [&](const rendezvous::AskStacks&) {
                   view_.take_stacks([send](std::string text) { send(rendezvous::StacksText{std::move(text)}); });
                 },
                 [&](const rendezvous::AskStatus& question) {
                   if (!question.last_lines) return send(view_.report());
                   last_output_.add_to(view_.report(), send);
                 },
                 [&](const rendezvous::AskRank& question) { read_output(question.question, send); },
                 [](const rendezvous::Act&) {},  // the coordinator's
             },
             m.question);
}

void Desk::read_output(const std::string& line, const std::function<void(rendezvous::NodeAnswer)>& send) {
  const auto answer = [send](const LogAnswer& said) { send(rendezvous::RankText{to_text(said)}); };
  const auto request = parse_log_request(line);
  if (!request) return answer({.problem = "this ddprun does not know the question"});
  rank_output_.read(*request, answer);
}

template <class Replies, class Take>
void Desk::ask(rendezvous::NodeId node, rendezvous::Question question, Duration limit, Replies replies, Take take) {
  const auto said = std::make_shared<Replies>(std::move(replies));
  const int serial = questions_.begin(
      limit, [said](const rendezvous::JobReply& reply) { return said->take(reply); },
      [said, take = std::move(take)] { take(std::move(*said).result()); });
  hooks_.send(rendezvous::Asked{node, serial, std::move(question)});
}

void Desk::open_http() {
  const MetricsOptions& at = *options_.metrics;
  const rendezvous::Listening listening = rendezvous::open_listener(at.address, at.port, {"the metrics", "--metrics"});
  OpenTls tls;
  if (!at.certificate.empty())
    tls = https_server(at.certificate, at.key, files_, [this](const std::string& sentence) { hooks_.say(sentence); });
  http_.emplace(
      io_, listening,
      [this](const HttpRequest& request, const HttpServer::Answer& answer) { on_http(request, answer); }, HttpLimits(),
      std::move(tls));
}

void Desk::open_socket() {
  socket_.emplace(
      io_, AgentAddress{geteuid(), getpid(), options_.push.run_id},
      [this](const AgentSocket::Request& request, const AgentSocket::Reply& reply) { on_request(request, reply); });
}

std::optional<std::uint16_t> Desk::http_port() const { return http_ ? std::optional(http_->port()) : std::nullopt; }

void Desk::start_page() {
  if (!options_.metrics || !options_.metrics->page) return;
  page_.emplace(io_, *http_, history_,
                [this](bool lines, const TakeStatus& take) { ask_for_status(lines && options_.metrics->token, take); });
  page_->start();
}

void Desk::on_request(const AgentSocket::Request& request, const AgentSocket::Reply& reply) {
  if (request.line == kAskStacks) return ask_for_stacks(reply);
  if (request.line == kAskStatus || request.line == kAskHistory)
    return ask_for_status(/*lines=*/true, [this, reply, all = request.line == kAskHistory](nlohmann::json status) {
      if (all) status["history"] = to_json(history_.history());
      reply(one_line(status));
    });
  if (request.line.starts_with(kAskAct)) return ask_for_act(request, reply);
  if (const auto log = parse_log_request(request.line)) return ask_for_output(*log, reply);
  reply("");
}

// Here the kernel says that he may, elsewhere the token; he says who he is.
void Desk::ask_for_act(const AgentSocket::Request& request, const AgentSocket::Reply& reply) {
  const auto answer = [reply](const rendezvous::ActResult& said) { reply(to_line(said)); };
  auto parsed = parse_act(request.line);
  if (const auto* why = std::get_if<std::string>(&parsed)) return answer({false, *why});
  auto& act = std::get<rendezvous::Act>(parsed);
  if (act.by.empty() && !request.by.empty()) act.by = request.by + " on " + options_.push.host;
  const auto node = hooks_.node();
  if (!node) return answer({false, kOutOfReach});
  const rendezvous::ActResult late{.text = "the coordinator has not answered within 5 s; it may have been carried out"};
  ask(*node, std::move(act), kActLimit, OneReply(late), answer);
}

void Desk::ask_for_output(const LogRequest& request, const AgentSocket::Reply& reply) {
  const auto node = hooks_.node();
  if (!node) return reply(to_text({.problem = kOutOfReach, .passes = true}));
  const auto answer = [reply, rank = request.rank](const rendezvous::RankText& said) {
    if (!said.text.empty()) return reply(said.text);
    if (said.world_size == 0) return reply(to_text({.problem = "no round is under way", .passes = true}));
    reply(to_text({.problem = "there is no rank " + std::to_string(rank) + ": the job has ranks 0 to " +
                              std::to_string(said.world_size - 1)}));
  };
  const rendezvous::RankText late{
      to_text({.problem = "the node of this rank has not answered within 6 s", .passes = true})};
  ask(*node, rendezvous::AskRank{request.rank, log_line(request)}, kOutputLimit, OneReply(late), answer);
}

void Desk::ask_for_stacks(const AgentSocket::Reply& reply) {
  const auto node = hooks_.node();
  if (!node) return reply("The coordinator is out of reach now.\n");
  ask(*node, rendezvous::AskStacks{}, kAllStacksLimit, StacksReplies(), reply);
}

// Without a coordinator a node still knows its own workers.
void Desk::ask_for_status(bool lines, const TakeStatus& take) {
  const auto answer = [this, lines, take](StatusAnswer status) {
    add_self(status);
    if (!status.job) return tell_own_report(std::move(status), lines, take);
    take(to_json(status));
  };
  if (hooks_.state().over) return answer({.problem = "the job has ended here"});
  const auto node = hooks_.node();
  if (!node) return answer({.problem = kOutOfReach});
  ask(*node, rendezvous::AskStatus{.last_lines = lines}, kStatusLimit, StatusReplies(), answer);
}

void Desk::tell_own_report(StatusAnswer answer, bool lines, const TakeStatus& take) {
  auto tell = [answer = std::move(answer), take](rendezvous::NodeReport report) mutable {
    answer.nodes = {std::move(report)};
    take(to_json(answer));
  };
  if (!lines) return tell(view_.report());
  last_output_.add_to(view_.report(), std::move(tell));
}

void Desk::add_self(StatusAnswer& answer) const {
  answer.run_id = options_.push.run_id;
  answer.program = options_.program;
  answer.host = options_.push.host;
  answer.run_time = Clock::now() - started_;
  answer.last_failure = history_.last_failure();
}

// Whether it lives and is ready says nothing of the job, and who checks that has no token.
void Desk::on_http(const HttpRequest& request, const HttpServer::Answer& answer) {
  const MetricsOptions& at = *options_.metrics;
  if (request.path == "/healthz") return answer({.body = "ok\n"});
  if (request.path == "/readyz") return answer(readiness(hooks_.state()));
  if (request.path == "/" && at.page) return answer(page_document());
  if (const auto refusal = refusal_of(request, at.token, options_.push.host, /*by_tls=*/!at.certificate.empty()))
    return answer(*refusal);
  if (request.path == "/live" && page_) return page_->open(answer);
  if (request.path == "/metrics")
    return collect_metrics([answer, format = metrics_format(request.accept)](const MetricsValues& values) {
      answer({.content_type = content_type(format), .body = metrics_text(values, format)});
    });
  if (request.path != "/status") return answer(http_line(404, "here are /metrics, /status, /healthz and /readyz"));
  // Without a token every user of this machine may ask, who may not read the workers' output.
  ask_for_status(/*lines=*/at.token.has_value(), [answer](const nlohmann::json& status) {
    answer({.content_type = "application/json", .body = one_line(status)});
  });
}

// Those that come while the coordinator is asked get the same answer.
void Desk::collect_metrics(TakeMetrics take) {
  want_metrics_.push_back(std::move(take));
  if (want_metrics_.size() > 1) return;
  const auto node = hooks_.state().over ? std::nullopt : hooks_.node();
  if (!node) return hand_out_metrics({});
  const auto answer = [this](StatusAnswer status) { hand_out_metrics(std::move(status)); };
  ask(*node, rendezvous::AskStatus{.job_only = true}, kStatusLimit, StatusReplies(/*job_only=*/true), answer);
}

void Desk::hand_out_metrics(StatusAnswer status) {
  status.nodes = {view_.report()};
  add_self(status);
  const NodeState node = hooks_.state();
  const MetricsValues values{options_.push.version, node.running_round || node.succeeded, measures_now(),
                             std::move(status)};
  for (const TakeMetrics& take : std::exchange(want_metrics_, {})) take(values);
}

std::optional<JobMeasures> Desk::measures_now() {
  if (!measures_) return {};
  JobMeasures out = *measures_;
  if (const auto kills = oom_kills(); kills && oom_kills_at_start_)
    out.oom_kills = *kills - std::min(*kills, *oom_kills_at_start_);
  hooks_.measure(out);
  return out;
}

void Desk::waits_for_round(TimePoint now) {
  if (measures_) measures_->waits_for_round(now);
}

void Desk::round_formed(const rendezvous::Seat& seat) {
  history_.round_formed(seat);
  if (page_) page_->round_formed();
}

void Desk::pace_changed(const rendezvous::ReportPace& report) {
  using Kind = rendezvous::PaceChange::Kind;
  if (report.change.kind == Kind::straggler || report.change.kind == Kind::all_slower)
    history_.straggler_found(in_words(report.change, report.host));
}

void Desk::workers_start(TimePoint now) {
  workers_run_since_.reset();
  pushes_.round_began(now);
}

void Desk::workers_run(TimePoint now) {
  workers_run_since_ = now;
  history_.workers_run();
  if (measures_) measures_->workers_run(now);
}

// Of the worker here with the lowest rank: by its beats, else by its reports.
void Desk::looked(const std::map<int, WorkerSight>& seen) {
  if (!measures_ || seen.empty()) return;
  const WorkerSight& first = seen.begin()->second;
  if (seen.begin()->first != 0 || !first.at || !workers_run_since_) return;
  measures_->steps_done(first.steps_done, first.beats ? first.in_steps : *first.at - *workers_run_since_);
}

void Desk::failed(rendezvous::FailureClass kind) {
  if (measures_) measures_->failed(kind);
}

void Desk::time_spent(const rendezvous::RoundSpent& spent) {
  if (measures_) measures_->snapshot_stall += spent.save;
}

void Desk::round_ended(const rendezvous::EndRound& end, bool ours) {
  if (measures_ && ours) measures_->round_ended(cause_of(end), Clock::now());
  history_.round_ended(end);
}

void Desk::job_ended(const rendezvous::Outcome& outcome) {
  history_.job_ended();
  if (page_) page_->job_ended(outcome);
}

}  // namespace ddprun::agent
