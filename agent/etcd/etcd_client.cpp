#include "agent/etcd/etcd_client.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

namespace ddprun::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kTryFirst{500};
constexpr seconds kTryMost{10};
constexpr int kQuick = 4;                // an answer may take as many times the last one's time
constexpr seconds kRequestLimit{4};      // at least a whole try
constexpr milliseconds kPauseFirst{50};  // after a failure at every member; then doubled
constexpr seconds kPauseMost{1};
constexpr seconds kKeepFor{30};
constexpr std::size_t kKeptMost = 2;

// Clients begin with different members.
std::size_t any_of(std::size_t count) {
  std::size_t number = 0;
  [[maybe_unused]] const ssize_t got = getrandom(&number, sizeof number, 0);
  return number % std::max<std::size_t>(count, 1);
}

}  // namespace

struct EtcdClient::Call {
  Call(asio::io_context& io, EtcdRequest asked, TimePoint limit, Done answered)
      : request(std::move(asked)), until(limit), done(std::move(answered)), timer(io) {}

  const EtcdRequest request;
  const TimePoint until;
  Done done;
  std::function<void(const EtcdAnswer&)> line = {};  // of a watch
  std::string input = {};
  std::size_t member = 0, failures = 0;
  std::set<std::size_t> lasting = {};  // members whose last failure cannot mend
  std::string why = {};
  TimePoint sent_at = {};
  asio::steady_timer timer;
  std::unique_ptr<EtcdConnection> connection = {};
};

EtcdClient::EtcdClient(asio::io_context& io, std::shared_ptr<const EtcdAccess> access)
    : io_(io),
      access_(std::move(access)),
      names_(std::make_shared<rendezvous::Resolver>(io)),
      member_(any_of(access_->members.size())),
      try_limit_(kTryFirst),
      kept_until_(io) {}

EtcdClient::~EtcdClient() = default;

Duration EtcdClient::usual_limit() const { return std::max<Duration>(kRequestLimit, try_limit_); }

void EtcdClient::request(EtcdRequest request, Duration within, Done done) {
  const auto call = std::make_shared<Call>(io_, std::move(request), Clock::now() + within, std::move(done));
  calls_.insert(call);
  begin(call);
}

void EtcdClient::watch(EtcdRequest request, std::function<void(const EtcdAnswer&)> line, Done ended) {
  stop_watch();
  watch_ = std::make_shared<Call>(io_, std::move(request), Clock::now() + try_limit_, std::move(ended));
  watch_->line = std::move(line);
  begin(watch_);
}

void EtcdClient::stop_watch() { watch_.reset(); }
bool EtcdClient::watches_well() const { return watch_ && watch_->member == member_; }

// `then` is called unless the call has ended by then.
void EtcdClient::wait(const CallPtr& call, Duration time, std::function<void()> then) {
  call->timer.expires_after(time);
  call->timer.async_wait([still = std::weak_ptr(call), then = std::move(then)](const std::error_code& error) {
    if (!error && !still.expired()) then();
  });
}

void EtcdClient::begin(const CallPtr& call) {
  const Duration limit = std::min(try_limit_, call->until - Clock::now());
  call->member = member_;
  call->connection = call->line ? new_connection(member_) : connection();
  wait(call, limit, [this, limit, still = std::weak_ptr(call)] {
    if (limit >= try_limit_) try_limit_ = std::min<Duration>(2 * try_limit_, kTryMost);
    fail(still.lock(), {.why = "it has not answered in time"});
  });
  send(call);
}

// Handlers of a connection are called while it lives, and its call with it.
void EtcdClient::send(const CallPtr& call) {
  const bool logs_in = !access_->user.empty() && token_.empty() && !has_no_users_;
  const EtcdRequest request = logs_in ? log_in(access_->user, access_->password) : call->request;
  const std::weak_ptr<Call> still = call;
  EtcdConnection::Piece piece;
  if (call->line && !logs_in) piece = [this, still](const std::string& bytes) { take_piece(still.lock(), bytes); };
  call->sent_at = Clock::now();
  call->connection->post(
      request.path, token_.empty() || logs_in ? HttpHeaders{} : HttpHeaders{{"Authorization", token_}}, request.json,
      [this, still, logs_in](const MemberAnswer& got) { take(still.lock(), logs_in, got); }, std::move(piece));
}

void EtcdClient::take(const CallPtr& call, bool logging_in, const MemberAnswer& got) {
  if (got.stale) {
    call->connection = new_connection(call->member);
    return send(call);
  }
  if (got.status == 0) return fail(call, {.why = got.why, .lasting = got.lasting});
  auto read = read_etcd_answer(got.status, got.body);
  if (const auto* refusal = std::get_if<EtcdRefusal>(&read)) return take_refusal(call, logging_in, *refusal);
  if (call->line && !logging_in) return fail(call, {.why = "it has ended the watch"});
  auto& answer = std::get<EtcdAnswer>(read);
  if (logging_in && answer.token.empty()) return fail(call, {.why = "it gives no token", .lasting = true});
  if (logging_in) {
    token_ = answer.token;
    return send(call);
  }
  try_limit_ = std::clamp<Duration>(kQuick * (Clock::now() - call->sent_at), kTryFirst, kTryMost);
  local_address_ = call->connection->local_address();
  const TimePoint sent_at = call->sent_at;
  keep(std::move(call->connection));
  finish(call, {.answer = std::move(answer), .sent_at = sent_at});
}

void EtcdClient::take_refusal(const CallPtr& call, bool logging_in, const EtcdRefusal& refusal) {
  if (logging_in && refusal.no_users) {
    has_no_users_ = true;
    return send(call);
  }
  if (refusal.log_in) token_.clear();
  if (!refusal.final || call->line) return fail(call, refusal);
  EtcdResult result{.refusal = refusal};
  result.refusal.why = host_field(access_->members[call->member]) + ": " + refusal.why;
  keep(std::move(call->connection));
  finish(call, result);
}

// Of a watch: each line is an answer.
void EtcdClient::take_piece(const CallPtr& call, const std::string& piece) {
  constexpr int kOk = 200;
  call->timer.cancel();
  call->input += piece;
  for (std::size_t end = 0; (end = call->input.find('\n')) != std::string::npos;) {
    const auto read = read_etcd_answer(kOk, std::string_view(call->input).substr(0, end));
    call->input.erase(0, end + 1);
    if (const auto* refusal = std::get_if<EtcdRefusal>(&read)) return take_refusal(call, false, *refusal);
    local_address_ = call->connection->local_address();
    const std::weak_ptr alive(alive_);
    call->line(std::get<EtcdAnswer>(read));
    if (alive.expired() || watch_ != call) return;
  }
  if (call->input.size() > kAnswerBodyMax) fail(call, {.why = "its answer is too large"});
}

void EtcdClient::fail(const CallPtr& call, const EtcdRefusal& refusal) {
  const std::size_t members = access_->members.size();
  if (call->member == member_) member_ = (member_ + 1) % members;
  const TimePoint now = Clock::now();
  if (now < call->until || call->why.empty())
    call->why = host_field(access_->members[call->member]) + ": " + refusal.why;
  refusal.lasting ? void(call->lasting.insert(call->member)) : void(call->lasting.erase(call->member));
  const std::size_t rounds = ++call->failures / members;
  const bool between = call->failures % members != 0;
  const Duration pause = between
                             ? Duration::zero()
                             : std::min<Duration>(kPauseFirst * (1 << std::min<std::size_t>(rounds, 6)), kPauseMost);
  EtcdResult failed{.refusal = refusal};
  failed.refusal.why = call->why;
  failed.refusal.lasting = call->line ? refusal.lasting : call->lasting.size() == members;
  if (call->line || failed.refusal.lasting || now + pause >= call->until) return finish(call, failed);
  call->connection.reset();
  wait(call, pause, [this, still = std::weak_ptr(call)] { begin(still.lock()); });
}

void EtcdClient::finish(CallPtr call, const EtcdResult& result) {
  calls_.erase(call);
  if (watch_ == call) watch_.reset();
  const Done done = std::move(call->done);
  call.reset();
  done(result);
}

std::unique_ptr<EtcdConnection> EtcdClient::new_connection(std::size_t member) {
  const HttpUrl& url = access_->members[member];
  OpenTls tls;
  if (url.https) tls = https_client(url.host, access_->authority, access_->certificate, access_->key);
  return std::make_unique<EtcdConnection>(io_, names_, url, std::move(tls));
}

std::unique_ptr<EtcdConnection> EtcdClient::connection() {
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const auto& kept) { return kept->member() == access_->members[member_]; });
  if (found == kept_.end()) return new_connection(member_);
  auto out = std::move(*found);
  kept_.erase(found);
  return out;
}

void EtcdClient::keep(std::unique_ptr<EtcdConnection> connection) {
  if (!connection->keeps()) return;
  if (kept_.size() == kKeptMost) kept_.erase(kept_.begin());
  kept_.push_back(std::move(connection));
  kept_until_.expires_after(kKeepFor);
  kept_until_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) kept_.clear();
  });
}

}  // namespace ddprun::agent
