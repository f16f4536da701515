#include "tests/simulation/etcd_requests.h"

#include "tests/simulation/etcd_agent.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr Duration kRequestLimit = 4s, kSlowRequestLimit = 10s, kLetGoEvery = 500ms;
constexpr int kLetGoTries = 6;

NodeId node_at(const ControlAddress& address) { return std::stoull(address.host.substr(4)); }

}  // namespace

ControlAddress address_of(NodeId id) { return {"node" + std::to_string(id), 1}; }

EtcdRequests::EtcdRequests(EtcdAgent& agent)
    : agent_(agent), etcd_(agent.cluster.etcd), election_(agent.id, agent.cluster.options.seed) {}

void EtcdRequests::begin() {
  etcd_.watch(agent_.id, [this](const EtcdKeys& seen) { agent_.on_node([this, seen] { on(HolderSeen{seen}); }); });
  schedule();
}

void EtcdRequests::on(const EtcdEvent& event) {
  if (!agent_.is_present()) return;
  for (const EtcdAction& action : election_.on(event, agent_.now()))
    std::visit([&](const auto& a) { carry_out(a); }, action);
  schedule();
}

void EtcdRequests::schedule() {
  const auto deadline = election_.next_deadline();
  if (!deadline || !agent_.is_present() || tick_at_ == deadline) return;
  tick_at_ = deadline;
  agent_.at_time(*deadline, [this, due = *deadline] {
    if (tick_at_ != due) return;
    tick_at_.reset();
    if (election_.next_deadline() == due) on(EtcdTick{});
    schedule();
  });
}

// It is sent again every second; each may be carried out.
template <class Answer>
void EtcdRequests::ask(EtcdRequest request, const std::function<void(const std::function<void(Answer)>&)>& once) {
  const auto answered = std::make_shared<bool>(false);
  const Duration limit = is_slow_ ? kSlowRequestLimit : kRequestLimit;
  const auto done = [this, answered](const Answer& answer) {
    if (std::exchange(*answered, true)) return;
    is_slow_ = false;
    on(answer);
  };
  once(done);
  for (Duration wait = kRequestLimit / 4; wait < limit; wait += kRequestLimit / 4)
    agent_.after(wait, [answered, once, done] {
      if (!*answered) once(done);
    });
  agent_.after(limit, [this, request, answered] {
    if (std::exchange(*answered, true)) return;
    is_slow_ = true;
    on(RequestFailed{request});
  });
}

// `at_etcd` is carried out there, `then` here with its result.
template <class Result>
void EtcdRequests::trip(const std::function<Result()>& at_etcd, const std::function<void(Result)>& then) {
  etcd_.request(agent_.id, [this, at_etcd, then] {
    return [this, then, result = at_etcd()] { agent_.on_node([then, result] { then(result); }); };
  });
}

void EtcdRequests::carry_out(const ReadKeys&) {
  ask<KeysRead>(EtcdRequest::read, [this](const std::function<void(KeysRead)>& done) {
    trip<EtcdKeys>([this] { return etcd_.keys(true); }, [done](const EtcdKeys& keys) { done({keys}); });
  });
}

void EtcdRequests::carry_out(const ClaimKey& action) {
  agent_.note("claims the key for term " + std::to_string(action.holder.term));
  const auto lease = std::make_shared<std::int64_t>(0);
  ClaimKey claim = action;
  claim.holder.places = {address_of(agent_.id)};
  ask<ClaimAnswered>(EtcdRequest::claim, [this, lease, claim](const std::function<void(ClaimAnswered)>& done) {
    const auto put = [this, lease, claim, done] {
      trip<ClaimAnswered>([this, claim, lease] { return etcd_.claim(claim, *lease); }, done);
    };
    if (*lease) return put();
    trip<std::int64_t>([this] { return etcd_.grant(kEtcdKeyLease); },
                       [lease, put](std::int64_t granted) {
                         if (!*lease) *lease = granted;
                         put();
                       });
  });
}

void EtcdRequests::carry_out(const RenewLease& action) {
  const auto once = [this, fence = action.fence](const std::function<void(RenewalAnswered)>& done) {
    const TimePoint sent_at = agent_.now();
    const auto answer = [this, sent_at, done](bool holds) {
      const bool late = agent_.cluster.options.bug == EtcdBug::lease_believed_after_pause;
      done({late ? agent_.now() : sent_at, holds});
    };
    const auto read = [this, fence, sent_at, done, answer](bool kept) {
      if (!kept) return done({sent_at, false});
      trip<bool>([this, fence] { return etcd_.holds(fence); }, answer);
    };
    trip<bool>([this, fence] { return etcd_.keep(etcd_.lease_of(fence)); }, read);
  };
  ask<RenewalAnswered>(EtcdRequest::renewal, once);
}

void EtcdRequests::carry_out(const StoreRecord& action) {
  const int call = ++agent_.cluster.calls;
  ask<StoreAnswered>(EtcdRequest::store, [this, action, call](const std::function<void(StoreAnswered)>& done) {
    trip<StoreAnswered>([this, action, call] { return etcd_.store(action, call); }, done);
  });
}

void EtcdRequests::carry_out(const ReleaseKey& action) {
  trip<bool>([this, action] { return etcd_.release(action), true; }, [](bool) {});
}

void EtcdRequests::carry_out(const LeadJob& action) { agent_.lead(action); }

void EtcdRequests::carry_out(const RecordStored& action) {
  if (const auto leads = agent_.leadership) leads->on_stored(action.id);
}

void EtcdRequests::carry_out(const StopLeading& action) { agent_.stop_leading_for(action.term); }

void EtcdRequests::carry_out(const FollowHolder& action) {
  if (!action.places.empty()) agent_.follow(node_at(action.places.front()));
}

void EtcdRequests::carry_out(const LookForNodes& action) {
  const int look = agent_.look_for(action.nodes);
  if (agent_.cluster.options.bug == EtcdBug::no_wait_for_members)
    for (const RoundNode& other : action.nodes) on(NodeGone{other.id});
  for (const RoundNode& other : action.nodes) probe(look, other.id);
}

void EtcdRequests::probe(int look, NodeId other) {
  agent_.after(1ms + agent_.net.milliseconds(100), [this, look, other] {
    if (!agent_.still_looks(look)) return;
    if (agent_.cluster.node(other).refuses() && agent_.net.reaches(agent_.id, other)) return on(NodeGone{other});
    agent_.after(1s, [this, look, other] { probe(look, other); });
  });
}

void EtcdRequests::carry_out(const LearnEnd& action) { agent_.learn_end(action.outcome); }

void EtcdRequests::carry_out(const WrongMark&) { require(false, "all nodes have the same credentials"); }

void EtcdRequests::carry_out(const KeysAreGone&) {
  require(agent_.cluster.lost_data || agent_.cluster.end, "keys do not vanish while the job goes on");
  agent_.note("finds no keys");
  if (!agent_.end) agent_.dispatch(agent::JobEnded{{Verdict::out_of_reach, 0, "etcd knows nothing of the job", {}}});
}

void EtcdRequests::leave() {
  lets_go_until_ = agent_.now() + kLetGoTries * kLetGoEvery;
  if (election_.leads()) let_keys_go(election_.last_act(), kLetGoTries);
}

bool EtcdRequests::may_exit() const { return !keeps_key() || agent_.now() >= lets_go_until_; }

void EtcdRequests::let_keys_go(const LastAct& act, int tries) {
  if (tries == 0 || let_go_) return;
  trip<bool>([this, act] { return etcd_.leave(act); }, [this](bool done) { let_go_ |= done; });
  agent_.after(kLetGoEvery, [this, act, tries] { let_keys_go(act, tries - 1); });
}

}  // namespace ddprun::test
