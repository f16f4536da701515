// The keys of a job at a real etcd, by agent/etcd: one and three members on loopback.
#include "agent/etcd/etcd_job.h"

#include <asio/write.hpp>

#include "agent/etcd/etcd_list.h"
#include "rendezvous/base/error.h"
#include "tests/support/etcd_cluster.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"
#include "tests/support/test_certificate.h"

namespace {

constexpr auto kEtcdTestLimit = 60s;

std::shared_ptr<EtcdAccess> access_to(const std::vector<std::string>& members) {
  auto out = std::make_shared<EtcdAccess>();
  for (const std::string& member : members)
    out->members.push_back({.host = "127.0.0.1", .port = static_cast<std::uint16_t>(std::stoi(member.substr(10)))});
  return out;
}

EtcdHolder holder_named(const std::string& name, int term = 1) {
  return {.node = std::hash<std::string>{}(name), .name = name, .places = {{"127.0.0.1", 29400}}, .term = term};
}

EtcdRecord record_of(int round, int term = 1) {
  EtcdRecord out{.term = term};
  out.round.number = round;
  out.round.term = term;
  out.round.nodes = {{.id = 7, .workers = 2, .name = "a", .control = {"127.0.0.1", 1}}};
  out.round.coordinator = 7;
  out.round.ledger.counts.crashes = 3;
  return out;
}

// One agent's view.
struct Agent {
  explicit Agent(std::shared_ptr<const EtcdAccess> access, const std::string& run_id = "job")
      : job(io, std::move(access), run_id,
            {.on_holder =
                 [this](const EtcdKeys& keys) {
                   seen.push_back(keys);
                   if (on_seen) on_seen();
                 },
             .on_trouble =
                 [this](const std::string& why, bool lasting) {
                   troubles.push_back(why);
                   is_lasting = lasting;
                 },
             .on_answer = [this] { ++answers; },
             .say = [this](const std::string& sentence) { said.push_back(sentence); }}) {}
  explicit Agent(const EtcdCluster& cluster, const std::string& run_id = "job")
      : Agent(access_to(cluster.members()), run_id) {}

  template <class Condition>
  bool run_until(Condition holds, Duration limit = kEtcdTestLimit) {
    const TimePoint until = Clock::now() + limit;
    while (!holds() && Clock::now() < until) {
      io.restart();
      io.run_one_for(while_waiting ? 1ms : 10ms);
      if (while_waiting) while_waiting();
    }
    return holds();
  }
  template <class Answer, class Ask>
  std::optional<Answer> ask(Ask call) {
    std::optional<std::optional<Answer>> out;
    call([&](std::optional<Answer> answer) { out = std::move(answer); });
    CHECK_FALSE(out);  // not inside the call
    REQUIRE(run_until([&] { return out.has_value(); }));
    return *out;
  }
  std::optional<KeysRead> read() {
    return ask<KeysRead>([this](auto done) { job.read(done); });
  }
  std::optional<ClaimAnswered> claim(const ClaimKey& key) {
    return ask<ClaimAnswered>([&](auto done) { job.claim(key, done); });
  }
  std::optional<RenewalAnswered> renew(std::int64_t fence) {
    return ask<RenewalAnswered>([&](auto done) { job.renew(fence, done); });
  }
  std::optional<StoreAnswered> store(std::int64_t fence, const EtcdRecord& record) {
    return ask<StoreAnswered>([&](auto done) { job.store({.fence = fence, .record = record}, done); });
  }
  bool ends(std::int64_t fence, Duration within = kEtcdTestLimit) {
    bool ended = false;
    const EtcdRecord last{.term = 1, .over = Outcome{.verdict = Verdict::success, .reason = {}, .cause = {}}};
    job.end({fence, {}, last}, within, [&] { ended = true; });
    return run_until([&] { return ended; });
  }

  asio::io_context io;
  std::function<void()> while_waiting = {}, on_seen = {};
  std::vector<EtcdKeys> seen;
  std::vector<std::string> troubles, said;
  bool is_lasting = false;
  int answers = 0;
  EtcdJob job;
};

// Before a member of etcd: every connection's bytes come as late as `delay` says.
class Proxy {
 public:
  explicit Proxy(const std::string& member)
      : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}),
        to_(asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(std::stoi(member.substr(10)))) {
    accept();
  }
  std::string member() const { return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }
  void poll() {
    io_.restart();
    io_.poll();
  }
  void cut() {
    is_cut_ = true;
    for (const auto& socket : sockets_) close(*socket);
  }
  void mend() { is_cut_ = false; }

  // Requests that were held arrive now.
  void release() {
    holds.clear();
    for (const auto& pass_on : std::exchange(held_, {})) pass_on();
  }
  std::size_t held() const { return held_.size(); }

  Duration delay = {};
  std::string holds = {};  // requests that contain this
  std::string loses = {};  // the answer of the next request that contains this

 private:
  using Socket = std::shared_ptr<asio::ip::tcp::socket>;
  static void close(asio::ip::tcp::socket& socket) {
    std::error_code ignored;
    socket.close(ignored);
  }
  void accept() {
    acceptor_.async_accept([this](const std::error_code& error, asio::ip::tcp::socket socket) {
      if (error) return;
      const auto here = std::make_shared<asio::ip::tcp::socket>(std::move(socket));
      const auto there = std::make_shared<asio::ip::tcp::socket>(io_);
      std::error_code failed = asio::error::eof;
      if (!is_cut_) there->connect(to_, failed);
      if (failed) close(*here);
      sockets_.insert(sockets_.end(), {here, there});
      if (!failed) carry(here, there), carry(there, here);
      accept();
    });
  }
  void carry(const Socket& from, const Socket& to) {
    const auto bytes = std::make_shared<std::string>(1 << 16, '\0');
    from->async_read_some(asio::buffer(*bytes), [=, this](const std::error_code& error, std::size_t count) {
      if (error) return close(*to);
      bytes->resize(count);
      if (lost_.contains(from)) return close(*to);
      if (!loses.empty() && bytes->find(loses) != std::string::npos) {
        loses.clear();
        lost_.insert(to);
      }
      const auto pass_on = [=, this] {
        std::error_code ignored;
        asio::write(*to, asio::buffer(*bytes), ignored);
        carry(from, to);
      };
      if (!holds.empty() && bytes->find(holds) != std::string::npos) return held_.push_back(pass_on);
      const auto timer = std::make_shared<asio::steady_timer>(io_, delay / 2);
      timer->async_wait([timer, pass_on](const std::error_code&) { pass_on(); });
    });
  }

  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  const asio::ip::tcp::endpoint to_;
  std::vector<Socket> sockets_;
  std::vector<std::function<void()>> held_;
  std::set<Socket> lost_;  // whose answers do not arrive
  bool is_cut_ = false;
};

ClaimKey first_claim(const std::string& name) { return {0, 0, holder_named(name), {.term = 1}}; }

}  // namespace

TEST_CASE("a job's keys at etcd: read, claimed, renewed, written, released and deleted", "[etcd][sanitized]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  Agent first(etcd, "a/b c"), second(etcd, "a/b c");
  const auto none = first.read();
  REQUIRE(none);
  CHECK_FALSE(none->keys.holder);
  CHECK(none->keys.record_revision == 0);
  REQUIRE(second.read());

  const auto won = first.claim(first_claim("first"));
  REQUIRE(won);
  REQUIRE(won->won);
  const std::int64_t fence = won->keys.holder_revision;
  CHECK(fence == won->keys.record_revision);
  CHECK(second.run_until([&] { return !second.seen.empty(); }));
  CHECK(second.seen.back().holder == holder_named("first"));
  CHECK(second.seen.back().holder_revision == fence);
  const auto lost = second.claim(first_claim("second"));
  REQUIRE(lost);
  CHECK_FALSE(lost->won);
  CHECK(lost->keys.holder == holder_named("first"));
  CHECK(lost->keys.record->term == 1);
  CHECK_FALSE(second.renew(fence)->holds);
  CHECK(second.run_until([&] { return etcd.ctl({"lease", "list"}).starts_with("found 2 leases"); }));  // the winner's

  const TimePoint before = Clock::now();
  const auto renewed = first.renew(fence);
  CHECK(renewed->holds);
  CHECK(renewed->sent_at >= before);
  CHECK(renewed->sent_at <= Clock::now());
  CHECK_FALSE(first.renew(fence + 1)->holds);
  const auto stored = first.store(fence, record_of(1));
  REQUIRE(stored->stored);
  CHECK(stored->record_revision > fence);
  CHECK(first.store(fence, record_of(2))->stored);
  CHECK_FALSE(second.store(fence - 1, record_of(3))->stored);
  const auto now = second.read();
  CHECK(now->keys.record->round.number == 2);
  CHECK(now->keys.record->round.ledger.counts.crashes == 3);
  CHECK(now->keys.record->age < 30s);

  second.seen.clear();
  first.job.release({fence, holder_named("first")});
  CHECK(second.run_until([&] {
    first.io.restart();
    first.io.poll();
    return !second.seen.empty();
  }));
  CHECK(second.seen.back().holder->released);
  const auto taken = second.claim(
      {second.seen.back().holder_revision, now->keys.record_revision, holder_named("second", 2), record_of(2, 2)});
  REQUIRE(taken->won);
  CHECK_FALSE(first.renew(fence)->holds);
  CHECK_FALSE(first.store(fence, record_of(9))->stored);

  EtcdRecord over = record_of(2, 2);
  over.over = Outcome{.verdict = Verdict::success};
  CHECK(second.store(taken->keys.holder_revision, over)->stored);
  CHECK(second.ends(taken->keys.holder_revision));
  const auto gone = first.read();
  CHECK_FALSE(gone->keys.holder);
  CHECK(gone->keys.record->over->verdict == Verdict::success);
  CHECK(first.troubles.empty());
  CHECK(second.troubles.empty());
  CHECK(first.answers > 5);
  CHECK(first.job.local_address() == "127.0.0.1");
}

TEST_CASE("of two claims at once one wins, and both know whose it is", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd(3);
  Agent first(etcd), second(etcd);
  REQUIRE(first.read());
  REQUIRE(second.read());
  std::optional<std::optional<ClaimAnswered>> one, two;
  first.job.claim(first_claim("first"), [&](const auto& answer) { one = answer; });
  second.job.claim(first_claim("second"), [&](const auto& answer) { two = answer; });
  REQUIRE(first.run_until([&] {
    second.io.restart();
    second.io.poll();
    return one && two;
  }));
  REQUIRE((*one && *two));
  CHECK((*one)->won != (*two)->won);
  CHECK((*one)->keys.holder == (*two)->keys.holder);
  CHECK((*one)->keys.holder_revision == (*two)->keys.holder_revision);
  CHECK((*one)->keys.holder->name == ((*one)->won ? "first" : "second"));
}

TEST_CASE("a coordinator whose lease has expired learns it, and so does the watch", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  Agent first(etcd), second(etcd);
  REQUIRE(second.read());
  REQUIRE(first.read());
  const auto won = first.claim(first_claim("first"));
  REQUIRE(won->won);
  CHECK(second.run_until([&] { return !second.seen.empty(); }));
  second.seen.clear();
  etcd.ctl({"del", "/ddprun/job/coordinator"});
  CHECK(second.run_until([&] { return !second.seen.empty(); }));
  CHECK_FALSE(second.seen.back().holder);
  CHECK(second.seen.back().holder_revision == 0);
  CHECK(second.seen.back().revision > won->keys.revision);
  CHECK_FALSE(first.renew(won->keys.holder_revision)->holds);
  CHECK_FALSE(first.store(won->keys.holder_revision, record_of(5))->stored);
  CHECK(second.read()->keys.record->round.number == 0);
}

TEST_CASE("a watch goes on after its member's death, and after a compaction it reads again", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd(3);
  Agent first(etcd), second(etcd);
  REQUIRE(second.read());
  REQUIRE(first.read());
  auto won = first.claim(first_claim("first"));
  REQUIRE(won->won);
  for (int member = 0; member < 3; ++member) {
    CAPTURE(member);
    const std::size_t before = second.seen.size();
    etcd.kill(member);
    won = {};
    const int term = member + 2;
    CHECK(first.run_until([&] {
      const auto now = first.read();
      if (!now || !now->keys.holder) return false;
      if (now->keys.holder->term == term) return true;
      return (won = first.claim({now->keys.holder_revision, now->keys.record_revision, holder_named("first", term),
                                 record_of(term, term)})) &&
             won->won;
    }));
    CHECK(second.run_until([&] { return second.seen.size() > before && second.seen.back().holder->term == term; }));
    etcd.start(member);
    if (member < 2) continue;
    CHECK(first.run_until([&] { return first.renew(won->keys.holder_revision)->holds; }));
  }
}

TEST_CASE("what a watch has missed is read again if etcd has compacted it", "[etcd][sanitized]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  Agent first(etcd);
  Proxy proxy(etcd.members()[0]);
  Agent second(access_to({proxy.member()}));
  const auto run_both = [&](auto holds) { return second.run_until([&] { return proxy.poll(), holds(); }); };
  std::optional<KeysRead> read;
  second.job.read([&](const auto& keys) { read = keys; });
  REQUIRE(run_both([&] { return read && second.answers == 1; }));
  REQUIRE(first.read());
  REQUIRE(first.claim(first_claim("first"))->won);
  REQUIRE(run_both([&] { return second.seen.size() == 1; }));
  for (const bool is_gone : {false, true}) {
    CAPTURE(is_gone);
    second.seen.clear();
    proxy.cut();
    const auto keys = first.read()->keys;
    const auto won = first.claim({keys.holder_revision, keys.record_revision, holder_named("later", 2), record_of(1)});
    REQUIRE(won->won);
    if (is_gone) etcd.ctl({"del", "/ddprun/job/coordinator"});
    etcd.ctl({"put", "other", "x"});
    etcd.ctl({"compact", std::to_string(won->keys.revision + (is_gone ? 2 : 1))});
    CHECK(second.seen.empty());
    proxy.mend();
    REQUIRE(run_both([&] { return !second.seen.empty(); }));
    CHECK(second.seen.back().holder.has_value() == !is_gone);
    CHECK(second.seen.back().holder_revision == (is_gone ? 0 : won->keys.holder_revision));
  }
}

TEST_CASE("a slow etcd answers in the end, and a quick one is left soon again", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  Proxy proxy(etcd.members()[0]);
  Agent agent(access_to({proxy.member()}));
  proxy.delay = 1500ms;
  std::optional<std::optional<KeysRead>> read;
  const TimePoint begun = Clock::now();
  const auto read_once = [&] {
    read.reset();
    agent.job.read([&](const auto& keys) { read = keys; });
    REQUIRE(agent.run_until([&] { return proxy.poll(), read.has_value(); }));
    return read->has_value();
  };
  CHECK(eventually(read_once, kEtcdTestLimit));
  CHECK(Clock::now() - begun < 10s);
  proxy.delay = {};
  CHECK(read_once());
  CHECK(read_once());
  proxy.delay = kEtcdTestLimit;
  const TimePoint stuck = Clock::now();
  CHECK_FALSE(read_once());
  CHECK(Clock::now() - stuck < 5s);
  CHECK(agent.troubles.back() == proxy.member() + ": it has not answered in time");
  CHECK_FALSE(agent.is_lasting);
}

TEST_CASE("what was given up and is carried out later overwrites nothing", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  Agent agent(etcd), other(etcd);
  REQUIRE(agent.read());
  REQUIRE(other.read());
  etcd.kill(0, SIGSTOP);
  CHECK_FALSE(agent.claim(first_claim("first")));
  CHECK(agent.troubles.back().ends_with("it has not answered in time"));
  etcd.kill(0, SIGCONT);
  // The lost claim may stand or not; this one replaces it.
  std::int64_t fence = 0;
  CHECK(agent.run_until([&] {
    const auto now = agent.read();
    if (!now) return false;
    const auto claimed = agent.claim({now->keys.holder_revision, now->keys.record_revision, holder_named("first"), {}});
    if (claimed && claimed->won) fence = claimed->keys.holder_revision;
    return fence > 0;
  }));
  CHECK(agent.renew(fence)->holds);
  etcd.kill(0, SIGSTOP);
  CHECK_FALSE(agent.store(fence, record_of(1)));
  etcd.kill(0, SIGCONT);
  CHECK(agent.run_until([&] {
    const auto stored = agent.store(fence, record_of(2));
    return stored && stored->stored;
  }));
  CHECK(other.read()->keys.record->round.number == 2);
  CHECK(agent.store(fence, record_of(3))->stored);
  CHECK(other.read()->keys.record->round.number == 3);

  etcd.kill(0, SIGSTOP);
  const TimePoint begun = Clock::now();
  CHECK(agent.ends(fence, 300ms));
  CHECK(Clock::now() - begun < 3s);
  etcd.kill(0, SIGCONT);
}

TEST_CASE("a request that was carried out without an answer is sent again, and does no harm", "[etcd][sanitized]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  Proxy proxy(etcd.members()[0]);
  Agent agent(access_to({proxy.member()})), other(etcd);
  agent.while_waiting = [&] { proxy.poll(); };
  REQUIRE(agent.read());
  proxy.loses = "request_put";
  const auto won = agent.claim(first_claim("x"));
  REQUIRE(won);
  CHECK(proxy.loses.empty());
  CHECK(won->won);
  CHECK(won->keys.holder == holder_named("x"));
  const std::int64_t fence = won->keys.holder_revision;
  CHECK(agent.renew(fence)->holds);
  proxy.loses = "request_put";
  const auto stored = agent.store(fence, record_of(1));
  REQUIRE(stored);
  CHECK(stored->stored);
  CHECK(stored->record_revision == other.read()->keys.record_revision);

  // Given up, and carried out after the next write.
  proxy.holds = "request_put";
  CHECK_FALSE(agent.store(fence, record_of(2)));
  CHECK(proxy.held() > 0);
  proxy.holds.clear();
  CHECK(agent.store(fence, record_of(3))->stored);
  const auto before = other.read()->keys;
  proxy.release();
  CHECK(agent.renew(fence)->holds);
  CHECK(other.read()->keys.record_revision == before.record_revision);
  CHECK(before.record->round.number == 3);
}

TEST_CASE("what the watch tells late does not make a coordinator take its key for another's", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  Proxy proxy(etcd.members()[0]);
  Agent agent(access_to({proxy.member()})), other(etcd);
  agent.while_waiting = [&] { proxy.poll(); };
  REQUIRE(agent.read());
  REQUIRE(other.read());
  proxy.holds = "\"events\"";
  const auto before = other.claim(first_claim("other"));
  REQUIRE(before->won);
  REQUIRE(agent.run_until([&] { return proxy.held() == 1; }));
  const auto won =
      agent.claim({before->keys.holder_revision, before->keys.record_revision, holder_named("x", 2), record_of(1)});
  REQUIRE(won->won);
  std::optional<std::optional<RenewalAnswered>> renewed;
  agent.on_seen = [&] {
    agent.job.renew(won->keys.holder_revision, [&](const auto& answer) { renewed = answer; });
    agent.on_seen = {};
  };
  proxy.release();
  REQUIRE(agent.run_until([&] { return renewed.has_value() && agent.seen.size() == 2; }));
  CHECK(agent.seen[0].revision < won->keys.revision);
  REQUIRE(*renewed);
  CHECK((*renewed)->holds);
}

TEST_CASE("a member without the others confirms no lease and no key", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd(3);
  const int leader = etcd.leader();
  REQUIRE(leader >= 0);
  Agent agent(access_to({etcd.members()[leader]}));
  REQUIRE(agent.read());
  const auto won = agent.claim(first_claim("x"));
  REQUIRE(won->won);
  CHECK(agent.renew(won->keys.holder_revision)->holds);
  for (const int other : {1, 2}) etcd.kill((leader + other) % 3, SIGSTOP);
  CHECK_FALSE(agent.renew(won->keys.holder_revision));  // it still believes that it is the leader
  for (const int other : {1, 2}) etcd.kill((leader + other) % 3, SIGCONT);
  CHECK(agent.run_until([&] {
    const auto renewed = agent.renew(won->keys.holder_revision);
    return renewed && renewed->holds;
  }));
}

TEST_CASE("an endpoint of another cluster than the others' is not believed", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd(2), other;
  Agent first(etcd);
  REQUIRE(first.read());
  REQUIRE(first.claim(first_claim("first"))->won);
  for (int i = 0; i < 12; ++i) {  // each begins with an endpoint by chance
    Agent one(access_to({etcd.members()[0], other.members()[0], etcd.members()[1]}));
    const auto keys = one.read();
    REQUIRE(keys);
    CHECK(keys->keys.holder == holder_named("first"));
  }
}

TEST_CASE("one paused member of three delays a request by a moment", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd(3);
  const int leader = etcd.leader();
  REQUIRE(leader >= 0);
  etcd.kill((leader + 1) % 3, SIGSTOP);
  for (int i = 0; i < 6; ++i) {  // each begins anywhere
    Agent agent(etcd);
    const TimePoint begun = Clock::now();
    CHECK(agent.read());
    CHECK(Clock::now() - begun < 2s);
  }
  etcd.kill((leader + 1) % 3, SIGCONT);
}

TEST_CASE("a user who has a right to one job's keys alone runs and asks it", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  etcd.add_user("ann", "/ddprun/job/");
  auto access = access_to(etcd.members());
  access->user = "ann";
  access->password.text = "secret";
  Agent ann(access);
  REQUIRE(ann.read());
  const auto won = ann.claim(first_claim("ann"));
  REQUIRE(won);
  CHECK(won->won);
  CHECK(ann.renew(won->keys.holder_revision)->holds);
  CHECK(ann.store(won->keys.holder_revision, record_of(1))->stored);
  const EtcdEntry job = read_job(*access, "job", kEtcdTestLimit);
  CHECK(job.run_id == "job");
  CHECK(job.keys.holder == holder_named("ann"));
  CHECK(job.keys.record->round.number == 1);
  const auto denied = [](auto ask) {
    const std::string said = error_text(ask), words = "permission denied: ";
    return said.find(words) == said.npos ? said : said.substr(said.find("readwrite "));
  };
  CHECK_THAT(denied([&] { read_job(*access, "job2", kEtcdTestLimit); }), StartsWith("readwrite /ddprun/job2/)"));
  CHECK_THAT(denied([&] { list_jobs(*access, kEtcdTestLimit); }), StartsWith("readwrite /ddprun/)"));
}

TEST_CASE("with users, a job needs its own prefix and no more, and logs in again when its token is not known any more",
          "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  etcd.add_user("ann", "/team/");
  auto access = access_to(etcd.members());
  access->prefix = "/team";
  Agent nobody(access);
  CHECK_FALSE(nobody.read());
  CHECK(nobody.is_lasting);
  CHECK(nobody.troubles.back() ==
        etcd.members()[0] + ": etcdserver: user name is empty: pass --rdzv-conf=user=NAME,password_file=FILE");
  access = std::make_shared<EtcdAccess>(*access);
  access->user = "ann";
  access->password.text = "wrong";
  Agent wrong(access);
  const TimePoint begun = Clock::now();
  CHECK_FALSE(wrong.read());
  CHECK(Clock::now() - begun < 5s);
  CHECK(wrong.is_lasting);
  CHECK(wrong.troubles.back() ==
        etcd.members()[0] + ": etcdserver: authentication failed, invalid user ID or password");
  access = std::make_shared<EtcdAccess>(*access);
  access->password.text = "secret";
  Agent ann(access), watcher(access);
  REQUIRE(watcher.read());
  REQUIRE(ann.read());
  const auto won = ann.claim(first_claim("ann"));
  REQUIRE(won->won);
  CHECK(watcher.run_until([&] { return !watcher.seen.empty(); }));
  CHECK(list_jobs(*access, kEtcdTestLimit).size() == 1);
  etcd.kill(0);  // which forgets the tokens
  etcd.start(0);
  std::optional<RenewalAnswered> renewed;
  CHECK(ann.run_until([&] { return (renewed = ann.renew(won->keys.holder_revision)).has_value(); }, 20s));
  REQUIRE(renewed);
  CHECK(renewed->holds);
  CHECK(ann.store(won->keys.holder_revision, record_of(1))->stored);
  CHECK(ann.ends(won->keys.holder_revision));
  access = std::make_shared<EtcdAccess>(*access);
  access->prefix = "/other";
  Agent elsewhere(access);
  CHECK_FALSE(elsewhere.read());
  CHECK(elsewhere.is_lasting);
  CHECK(elsewhere.troubles.back() == etcd.members()[0] +
                                         ": etcdserver: permission denied: give a role of the user ann the right to "
                                         "these keys (etcdctl role grant-permission --prefix=true ROLE readwrite "
                                         "/other/job/), or name a prefix to which it has one "
                                         "(--rdzv-conf=etcd_prefix=/TEAM)");
}

TEST_CASE("a password that is renewed is read for the next log-in, and a missing one is waited for", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  etcd.add_user("ann", "/ddprun/");
  const TempFolder folder;
  auto access = access_to(etcd.members());
  access->user = "ann";
  access->password = {folder.write("password", "secret\n"), "secret"};
  Agent ann(access);
  REQUIRE(ann.read());
  fs::remove(access->password.name);
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"delete", "ann"}, {"add", "ann:other"}, {"grant-role", "ann", "ann"}})
    etcd.ctl(joined({{"user"}, words}));
  REQUIRE(ann.run_until([&] { return !ann.read() && !ann.said.empty(); }));
  fs::rename(folder.write("new", "other\n"), access->password.name);
  CHECK(ann.run_until([&] { return ann.read().has_value(); }));
  CHECK(ann.said == std::vector{"the new password for etcd cannot be used: " + access->password.name +
                                " is empty or cannot be read; the old one stays in use"});
}

TEST_CASE("certificates that are renewed are read for the next connection, and disturb nothing", "[etcd]") {
  if (!has_etcd()) return;
  const TempFolder folder;
  std::vector<TestCertificate> servers, clients;
  for (const char* name : {"1", "2"}) {
    servers.push_back(make_certificate(folder, std::string("server") + name, "DNS:localhost,IP:127.0.0.1"));
    clients.push_back(make_certificate(folder, std::string("client") + name, "DNS:client"));
  }
  const auto renew = [&](const std::string& name, const std::string& text) {
    fs::rename(folder.write("new", text), folder / name);
    return (folder / name).string();
  };
  const auto pem = [&](const std::string& name, const std::string& from) {
    return NamedText{renew(name, read_file(from)), read_file(from)};
  };
  // etcd's gateway is a client of etcd, too, by the server's certificate.
  const auto renew_server = [&](int which, const std::string& trusted) {
    renew("etcd.pem", read_file(servers[which].certificate));
    renew("etcd.key", read_file(servers[which].key));
    renew("trusted.pem", trusted + read_file(servers[which].certificate));
  };
  renew_server(0, read_file(clients[0].certificate) + read_file(clients[1].certificate));
  EtcdCluster etcd(1,
                   {"--cert-file", folder / "etcd.pem", "--key-file", folder / "etcd.key", "--client-cert-auth",
                    "--trusted-ca-file", folder / "trusted.pem"},
                   "https");
  Proxy proxy(etcd.members()[0]);
  auto access = access_to({proxy.member()});
  access->members[0].https = true;
  access->pem = {pem("ca.pem", servers[0].certificate), pem("own.pem", clients[0].certificate),
                 pem("own.key", clients[0].key)};
  Agent agent(access);
  agent.while_waiting = [&] { proxy.poll(); };
  REQUIRE(agent.run_until([&] { return agent.read().has_value(); }));
  // Each read has a new connection.
  const TimePoint begun = Clock::now();
  for (int i = 1; Clock::now() - begun < 3s; ++i) {
    pem("own.pem", clients[i % 2].certificate);
    pem("own.key", clients[i % 2].key);
    proxy.cut();
    proxy.mend();
    CHECK(agent.read());
  }
  CHECK(agent.said.empty());

  pem("own.pem", clients[0].certificate);
  pem("own.key", clients[1].key);  // which is another one's
  renew_server(1, read_file(clients[1].certificate));
  etcd.kill(0);
  etcd.start(0);
  REQUIRE(agent.run_until([&] { return !agent.read() && agent.is_lasting && !agent.said.empty(); }));
  CHECK_THAT(agent.said[0], StartsWith("the new certificate for etcd cannot be used: "));
  pem("own.pem", clients[1].certificate);
  pem("ca.pem", servers[1].certificate);
  CHECK(agent.run_until([&] { return agent.read().has_value(); }));
  CHECK(agent.said.size() == 1);
}

TEST_CASE("by TLS, both sides show a certificate", "[etcd]") {
  if (!has_etcd()) return;
  const TempFolder folder;
  const TestCertificate server = make_certificate(folder, "server", "DNS:localhost,IP:127.0.0.1"),
                        client = make_certificate(folder, "client", "DNS:client");
  // etcd's gateway is a client of etcd, too, by the server's certificate.
  const fs::path trusted = folder.write("trusted.pem", read_file(client.certificate) + read_file(server.certificate));
  EtcdCluster etcd(
      1,
      {"--cert-file", server.certificate, "--key-file", server.key, "--client-cert-auth", "--trusted-ca-file", trusted},
      "https");
  auto access = access_to(etcd.members());
  access->members[0].https = true;
  access->pem.authority = {server.certificate, read_file(server.certificate)};
  access->pem.certificate = {client.certificate, read_file(client.certificate)};
  access->pem.key = {client.key, read_file(client.key)};
  Agent good(access);
  good.run_until([&] { return good.read().has_value(); }, 20s);
  CAPTURE(good.troubles);
  REQUIRE(good.answers > 0);
  const auto won = good.claim(first_claim("good"));
  REQUIRE(won->won);
  CHECK(good.renew(won->keys.holder_revision)->holds);
  CHECK(good.run_until([&] { return !good.seen.empty(); }));

  const auto refused = [&](auto change) {
    auto other = std::make_shared<EtcdAccess>(*access);
    change(*other);
    Agent agent(other);
    CHECK_FALSE(agent.read());
    return agent.is_lasting ? agent.troubles.back() : "not lasting: " + agent.troubles.back();
  };
  const std::string at = etcd.members()[0] + ": ";
  CHECK(refused([&](EtcdAccess& to) {
          to.pem.certificate = to.pem.key = {};
        }).starts_with(at + "it refused the connection"));
  CHECK(refused([&](EtcdAccess& to) {
          to.pem.authority = to.pem.certificate;
        }).starts_with(at + "its certificate is refused"));
  CHECK(refused([&](EtcdAccess& to) { to.pem.key->text = "nothing"; }).find("key") != std::string::npos);
  CHECK(refused([&](EtcdAccess& to) { to.members[0].https = false; }) ==
        "not lasting: " + at + "it closed the connection without an answer");
}

TEST_CASE("what is no etcd is told, and what may mend is not given up", "[etcd][sanitized]") {
  asio::io_context io;
  const auto told = [](const std::string& answer) {
    Agent agent(access_to({"127.0.0.1:1"}));
    asio::ip::tcp::acceptor acceptor(agent.io, {asio::ip::address_v4::loopback(), 0});
    const std::string member = "127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
    std::vector<std::shared_ptr<asio::ip::tcp::socket>> sockets;
    std::function<void()> accept = [&] {
      acceptor.async_accept([&](const std::error_code& error, asio::ip::tcp::socket socket) {
        if (error) return;
        asio::write(socket, asio::buffer(answer));
        socket.shutdown(asio::ip::tcp::socket::shutdown_send);
        sockets.push_back(std::make_shared<asio::ip::tcp::socket>(std::move(socket)));
        accept();
      });
    };
    accept();
    std::string why;
    EtcdClient client(agent.io, access_to({member}), "", [](const std::string&) {});
    std::optional<EtcdResult> result;
    client.request(transaction({.read = {"x"}}), 1s, [&](const EtcdResult& came) { result = came; });
    REQUIRE(agent.run_until([&] { return result.has_value(); }));
    CHECK(result->refusal.why.starts_with(member + ": "));
    return std::pair(result->refusal.why.substr(member.size() + 2), result->refusal.lasting);
  };
  const std::string none = "it does not answer as the v3 API of etcd 3.4 or later";
  CHECK(told("HTTP/1.1 404 Not Found\r\nContent-Length: 19\r\n\r\n404 page not found\n") ==
        std::pair(none + ": 404 Not Found", true));
  CHECK(told("HTTP/1.1 200 OK\r\n\r\n<html></html>") == std::pair(none, true));
  CHECK(told("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n[{}]") == std::pair(none, true));
  CHECK(told("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n") ==
        std::pair<std::string, bool>("it answers 503 Service Unavailable", false));
  CHECK(told("SSH-2.0-x\r\n") == std::pair<std::string, bool>("its answer is not one of HTTP/1.1", false));
  CHECK(told("").first == "it closed the connection without an answer");
  CHECK(told("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n") ==
        std::pair<std::string, bool>("its answer is too large", false));
}

TEST_CASE("where nobody listens, a request ends in time and names the member", "[etcd]") {
  const std::string member = "127.0.0.1:" + std::to_string(free_port());
  Agent agent(access_to({member}));
  const TimePoint begun = Clock::now();
  CHECK_FALSE(agent.read());
  CHECK(Clock::now() - begun < 5s);
  CHECK(agent.troubles == std::vector{member + ": Connection refused"});
  CHECK_FALSE(agent.is_lasting);
  CHECK(agent.answers == 0);
  CHECK(error_text([&] { list_jobs(*access_to({member}), 100ms); }).find(member + ": Connection refused") !=
        std::string::npos);
}

TEST_CASE("a value that cannot be read is told, and nothing is overwritten", "[etcd][sanitized]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  Agent agent(etcd);
  etcd.ctl({"put", "/ddprun/job/record", "{\"format\":2}"});
  CHECK_FALSE(agent.read());
  CHECK(agent.is_lasting);
  CHECK(agent.troubles.back() == "the key /ddprun/job/record has an unknown value: 'format' is out of range");
  CHECK_FALSE(agent.claim(first_claim("x")));
  CHECK(etcd.ctl({"get", "/ddprun/job/record", "--print-value-only"}) == "{\"format\":2}\n");
  CHECK(list_jobs(*access_to(etcd.members()), kEtcdTestLimit).at(0).unknown == agent.troubles.back());
}

TEST_CASE("jobs are listed by their keys", "[etcd]") {
  if (!has_etcd()) return;
  EtcdCluster etcd;
  Agent one(etcd, "one"), two(etcd, "team/two");
  for (Agent* agent : {&one, &two}) {
    REQUIRE(agent->read());
    REQUIRE(agent->claim(first_claim("x"))->won);
  }
  etcd.ctl({"put", "/ddprun/coordinator", "x"});
  etcd.ctl({"put", "/ddprun/three/other", "x"});
  etcd.ctl({"put", "/ddprun2/four/record", "x"});
  const auto jobs = list_jobs(*access_to(etcd.members()), kEtcdTestLimit);
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].run_id == "one");
  CHECK(jobs[1].run_id == "team/two");
  CHECK(jobs[1].keys.holder == holder_named("x"));
}

TEST_CASE("scripts/etcd.sh starts a cluster, ends and starts one member, and leaves no process behind", "[etcd]") {
  if (!has_etcd()) return;
  const TempFolder folder;
  const std::string script = source_folder() + "/scripts/etcd.sh", at = (folder / "c").string();
  const Ended ended =
      run({"bash", "-ec",
           "members=$(" + script + " start " + at + "); echo $members; export ETCDCTL_API=3\n" +
               "etcdctl --endpoints $members put a b; " + script + " stop " + at + " 2\n" +
               "etcdctl --endpoints $members get a; " + script + " start " + at + " 2; " + script + " pause " + at +
               " 1\n" + "etcdctl --command-timeout 1s --endpoints $members endpoint health || true; " + script +
               " stop " + at},
          kEtcdTestLimit);
  REQUIRE(ended == exited(0));
  CHECK(std::regex_search(ended.out, std::regex("^(127.0.0.1:[0-9]+,?){3}\nOK\na\nb\n")));
  CHECK(ended.err.find("is unhealthy") != std::string::npos);
  CHECK(run({"pgrep", "-f", at + "/m[123]"}, kEtcdTestLimit).code == 1);
}
