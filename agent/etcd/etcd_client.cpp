#include "agent/etcd/etcd_client.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kTryFirst{500};
constexpr seconds kTryMost{10};
constexpr int kQuick = 4;                // an answer may take as many times the last one's time
constexpr seconds kRequestLimit{4};      // or a whole try
constexpr milliseconds kPauseFirst{50};  // doubled after each failure at every member
constexpr seconds kPauseMost{1};
constexpr seconds kKeepFor{30};
constexpr std::size_t kKeptMost = 2;
constexpr int kHttpOk = 200;
constexpr const char* kOtherCluster = "it is of another cluster of etcd than most of the endpoints";

// Clients begin with different members.
std::size_t first_of(std::size_t count) {
  std::size_t number = 0;
  [[maybe_unused]] const ssize_t got = getrandom(&number, sizeof number, 0);
  return number % std::max<std::size_t>(count, 1);
}

std::string how_to_permit(const std::string& user, const std::string& keys) {
  return ": give a role of the user " + user +
         " the right to these keys (etcdctl role grant-permission --prefix=true ROLE readwrite " + shell_word(keys) +
         "), or name a prefix to which it has one (--rdzv-conf=etcd_prefix=/TEAM)";
}

}  // namespace

struct EtcdClient::Call {
  EtcdRequest request;
  TimePoint until;  // all tries; of a watch: its first line
  Done done;
  asio::steady_timer timer;
  std::function<void(const EtcdAnswer&)> line = {};  // of a watch
  std::string input = {}, why = {};
  std::size_t member = 0, failures = 0;
  std::set<std::size_t> lasting = {};  // members whose last failure cannot mend
  Duration pause = kPauseFirst;
  TimePoint sent_at = {}, try_until = {};
  std::unique_ptr<HttpClient> http = {};
};

EtcdClient::EtcdClient(asio::io_context& io, std::shared_ptr<const EtcdAccess> access, std::string keys,
                       const EtcdCredentials::Say& say)
    : io_(io),
      access_(std::move(access)),
      keys_(std::move(keys)),
      credentials_(*access_, say),
      names_(std::make_shared<rendezvous::Resolver>(io)),
      member_(first_of(access_->members.size())),
      try_limit_(kTryFirst),
      clusters_(access_->members.size()),
      kept_until_(io) {}

bool EtcdClient::watches_well() const { return watch_ && watch_->member == member_; }

void EtcdClient::request(EtcdRequest request, std::optional<Duration> within, Done done) {
  const Duration limit = within.value_or(std::max<Duration>(kRequestLimit, try_limit_));
  const CallPtr call(new Call{std::move(request), Clock::now() + limit, std::move(done), asio::steady_timer(io_)});
  calls_.insert(call);
  begin(call);
}

void EtcdClient::watch(EtcdRequest request, std::function<void(const EtcdAnswer&)> line, Done ended) {
  const TimePoint until = Clock::now() + try_limit_;
  watch_.reset(new Call{std::move(request), until, std::move(ended), asio::steady_timer(io_), std::move(line)});
  begin(watch_);
}

void EtcdClient::begin(const CallPtr& call) {
  call->member = member_;
  call->try_until = std::min(Clock::now() + try_limit_, call->until);
  call->http = call->line ? std::make_unique<HttpClient>(io_, names_) : connection();
  send(call);
}

// An HttpClient calls its handlers while it lives, and its call with it.
void EtcdClient::send(const CallPtr& call) {
  const bool logs_in = !access_->user.empty() && token_.empty() && !has_no_users_;
  EtcdRequest request = logs_in ? log_in(access_->user, credentials_.password()) : call->request;
  HttpPost post{.url = access_->members[call->member], .json = std::move(request.json), .keep = true};
  post.url.target = request.path;
  if (post.url.https) post.tls = credentials_.tls_to(post.url.host);
  if (!logs_in && !token_.empty()) post.headers = {{"Authorization", token_}};
  const std::weak_ptr<Call> still = call;
  if (call->line && !logs_in) post.piece = [this, still](const std::string& piece) { take_piece(still.lock(), piece); };
  call->sent_at = Clock::now();
  call->http->post(std::move(post), call->try_until - call->sent_at,
                   [this, still, logs_in](const PostResult& got) { take(still.lock(), logs_in, got); });
}

void EtcdClient::take(const CallPtr& call, bool logging_in, const PostResult& got) {
  if (got.status == 0) {
    const TimePoint now = Clock::now();
    if (now >= call->try_until && now - call->sent_at >= try_limit_)
      try_limit_ = std::min<Duration>(2 * try_limit_, kTryMost);
    return fail(call, {.why = got.why, .lasting = got.tls_failed});
  }
  auto read = read_etcd_answer(got.status, got.body);
  if (const auto* refusal = std::get_if<EtcdRefusal>(&read)) return take_refusal(call, logging_in, *refusal);
  if (call->line && !logging_in) return fail(call, {.why = "it has ended the watch"});
  auto& answer = std::get<EtcdAnswer>(read);
  if (!logging_in && !believes(*call, answer)) return fail(call, {.why = kOtherCluster});
  if (logging_in) {
    if (answer.token.empty()) return fail(call, {.why = "it gives no token", .lasting = true});
    token_ = answer.token;
    return send(call);
  }
  try_limit_ = std::clamp<Duration>(kQuick * (Clock::now() - call->sent_at), kTryFirst, kTryMost);
  local_address_ = call->http->local_address();
  keep(std::move(call->http));
  finish(call, {.answer = std::move(answer), .sent_at = call->sent_at});
}

// A member that was set up anew answers like an empty etcd: more than half of them must be of that cluster.
bool EtcdClient::believes(const Call& call, const EtcdAnswer& answer) {
  clusters_[call.member] = answer.cluster;
  const auto same = static_cast<std::size_t>(std::count(clusters_.begin(), clusters_.end(), answer.cluster));
  const bool all_were_asked = call.failures + 1 >= clusters_.size();
  if (2 * same > clusters_.size() || (cluster_.empty() && all_were_asked)) cluster_ = answer.cluster;
  return cluster_ == answer.cluster;
}

void EtcdClient::take_refusal(const CallPtr& call, bool logging_in, EtcdRefusal refusal) {
  if (refusal.denied) refusal.why += how_to_permit(access_->user, keys_);
  if (logging_in && refusal.no_users) {
    has_no_users_ = true;
    return send(call);
  }
  if (refusal.log_in) token_.clear();
  if (refusal.lasting && std::exchange(has_no_users_, false)) return fail(call, {.why = refusal.why});  // it may now
  if (!refusal.final || call->line) return fail(call, refusal);
  EtcdResult result{.refusal = refusal};
  result.refusal.why = host_field(access_->members[call->member]) + ": " + refusal.why;
  keep(std::move(call->http));
  finish(call, result);
}

// Of a watch: each line is an answer.
void EtcdClient::take_piece(const CallPtr& call, const std::string& piece) {
  const std::weak_ptr alive(alive_);
  call->input += piece;
  for (std::size_t end = 0; (end = call->input.find('\n')) != std::string::npos;) {
    const auto read = read_etcd_answer(kHttpOk, std::string_view(call->input).substr(0, end));
    call->input.erase(0, end + 1);
    if (const auto* refusal = std::get_if<EtcdRefusal>(&read)) return take_refusal(call, false, *refusal);
    if (!believes(*call, std::get<EtcdAnswer>(read))) return fail(call, {.why = kOtherCluster});
    call->line(std::get<EtcdAnswer>(read));
    if (alive.expired() || watch_ != call) return;
  }
  if (call->input.size() > kAnswerBodyMax) fail(call, {.why = "its answer is too large"});
}

void EtcdClient::fail(const CallPtr& call, const EtcdRefusal& refusal) {
  const std::size_t members = access_->members.size();
  const TimePoint now = Clock::now();
  if (call->member == member_) member_ = (member_ + 1) % members;
  if (now < call->until || call->why.empty())  // the last try may have been cut short
    call->why = host_field(access_->members[call->member]) + ": " + refusal.why;
  refusal.lasting ? void(call->lasting.insert(call->member)) : void(call->lasting.erase(call->member));
  const bool all_failed = ++call->failures % members == 0;
  if (all_failed) call->pause = std::min<Duration>(2 * call->pause, kPauseMost);
  const Duration pause = all_failed ? call->pause : Duration::zero();
  EtcdResult failed{.refusal = refusal};
  failed.refusal.why = call->why;
  failed.refusal.lasting = call->line ? refusal.lasting : call->lasting.size() == members;
  if (call->line || failed.refusal.lasting || now + pause >= call->until) return finish(call, failed);
  call->http.reset();
  call->timer.expires_after(pause);
  call->timer.async_wait([this, still = std::weak_ptr(call)](const std::error_code& error) {
    if (const CallPtr waiting = still.lock(); waiting && !error) begin(waiting);
  });
}

void EtcdClient::finish(CallPtr call, const EtcdResult& result) {
  calls_.erase(call);
  if (watch_ == call) watch_.reset();
  const Done done = std::move(call->done);
  call.reset();
  done(result);
}

std::unique_ptr<HttpClient> EtcdClient::connection() {
  const HttpUrl& to = access_->members[member_];
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const auto& kept) {
    return kept->url().host == to.host && kept->url().port == to.port;
  });
  if (found == kept_.end()) return std::make_unique<HttpClient>(io_, names_);
  auto out = std::move(*found);
  kept_.erase(found);
  return out;
}

void EtcdClient::keep(std::unique_ptr<HttpClient> connection) {
  if (!connection->keeps_connection()) return;
  if (kept_.size() == kKeptMost) kept_.erase(kept_.begin());
  kept_.push_back(std::move(connection));
  kept_until_.expires_after(kKeepFor);
  kept_until_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) kept_.clear();
  });
}

}  // namespace ddprun::agent
