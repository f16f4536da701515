// The keys of a job at a real etcd, by agent/etcd: one and three members on loopback.
#include "agent/etcd/etcd_job.h"
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
            {.on_holder = [this](const EtcdKeys& keys) { seen.push_back(keys); },
             .on_trouble =
                 [this](const std::string& why, bool lasting) {
                   troubles.push_back(why);
                   is_lasting = lasting;
                 },
             .on_answer = [this] { ++answers; }}) {}
  explicit Agent(const EtcdCluster& cluster, const std::string& run_id = "job")
      : Agent(access_to(cluster.members()), run_id) {}

  template <class Condition>
  bool run_until(Condition holds, Duration limit = kEtcdTestLimit) {
    const TimePoint until = Clock::now() + limit;
    while (!holds() && Clock::now() < until) {
      io.restart();
      io.run_one_for(10ms);
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
    return ask<StoreAnswered>([&](auto done) { job.store({fence, record}, done); });
  }
  bool ends(std::int64_t fence, Duration within = kEtcdTestLimit) {
    bool ended = false;
    job.end(fence, within, [&] { ended = true; });
    return run_until([&] { return ended; });
  }

  asio::io_context io;
  std::vector<EtcdKeys> seen;
  std::vector<std::string> troubles;
  bool is_lasting = false;
  int answers = 0;
  EtcdJob job;
};

ClaimKey first_claim(const std::string& name) { return {0, 0, holder_named(name), {.term = 1}}; }

}  // namespace

TEST_CASE("a job's keys at etcd: read, claimed, renewed, written, released and deleted", "[etcd]") {
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
  CHECK(etcd.ctl({"lease", "list"}).find("found 2 leases") == 0);  // the record's two
  CHECK(first.troubles.empty());
  CHECK(second.troubles.empty());
  CHECK(first.answers > 5);
  CHECK(first.job.local_address() == "127.0.0.1");
}
