#include "tests/simulation/etcd_cluster.h"

#include "tests/simulation/etcd_agent.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr Duration kSettles = 60s;     // after trouble: until rounds run as before
constexpr Duration kEndWithin = 700s;  // after workers may end
constexpr int kShortCutMs = 20'000, kLongFaultMs = 60'000, kRestartMs = 10'000, kSlowMostMs = 9'000;
constexpr int kEventsMost = 3'000'000;

}  // namespace

EtcdCluster::EtcdCluster(const EtcdClusterOptions& its_options)
    : options(its_options), net(options.seed), etcd(net, options.etcd_rate.value_or(rate_of_etcd()), options.bug) {
  for (int i = 0; i < options.agents; ++i) net.after(net.milliseconds(2'000), [this] { add_node(); });
  schedule_faults();
}

EtcdCluster::~EtcdCluster() = default;

double EtcdCluster::rate_of_etcd() {
  const double rate = 1 + (options.clock_error - 1) * net.up_to(1000) / 1000.0;
  return net.chance(0.5) ? rate : 1 / rate;
}

EtcdAgent& EtcdCluster::add_node() {
  nodes_.push_back(std::make_unique<EtcdAgent>(nodes_.size() + 1, *this));
  nodes_.back()->etcd.begin();
  return *nodes_.back();
}

void EtcdCluster::run(std::optional<Duration> until) {
  const TimePoint late = last_fault() + kWorkersGoOn + kEndWithin;
  for (int events = 0; net.step(); ++events) {
    if (until && net.now() >= TimePoint() + *until) return;
    require(events < kEventsMost, "the job comes to an end");
    require(net.now() < late || present_nodes().empty(), "the job goes on to its end once all faults are over");
  }
}

// Who decided the end may have died, or been out of reach of some, before etcd had it: then the job ends once more.
void EtcdCluster::check_end() {
  require(end || lost_data, "the job ends");  // without its keys it may go on nowhere
  const bool is_written = end && etcd.first_end() && etcd.first_end()->reason == end->reason;
  std::optional<Verdict> verdict;
  for (const auto& one : nodes_) {
    require(one->running.empty(), "no worker is left at the end");
    if (!one->in_last_round || !one->alive || one->left || lost_data || !is_written) continue;
    require(one->finished_with && one->finished_with->verdict == verdict.value_or(one->finished_with->verdict),
            "all nodes learn the same end, node" + std::to_string(one->id) + " too");
    verdict = one->finished_with->verdict;
  }
}

std::vector<NodeId> EtcdCluster::present_nodes() const {
  std::vector<NodeId> out;
  for (const auto& one : nodes_)
    if (one->is_present()) out.push_back(one->id);
  return out;
}

void EtcdCluster::check_takeover() const {
  for (const auto& one : nodes_)
    require(is_troubled() || lost_data || !one->is_present() || !one->supervisor.running_round(),
            "no coordinator is replaced for etcd's sake");
}

void EtcdCluster::check_start(NodeId id, const RecordId& round) {
  for (const auto& one : nodes_)
    if (!one->running.empty() && one->round() != round)
      require(one->is_excused() || begins_anew, "no worker of another round runs when one starts: " + named(round) +
                                                    " on node" + std::to_string(id) + ", " + named(one->round()) +
                                                    " on node" + std::to_string(one->id));
  if (!started_.insert(round).second) return;
  notes.note(named(round) + " starts");
  round_began_ = net.now();
  require(lost_data || *started_.rbegin() == round, "terms and rounds' numbers grow");
}

void EtcdCluster::schedule_faults() {
  schedule_fault(options.kills, &EtcdCluster::kill);
  schedule_fault(options.pauses, &EtcdCluster::pause);
  schedule_fault(options.leaves, &EtcdCluster::leave_job);
  schedule_fault(options.cuts, &EtcdCluster::cut_nodes);
  schedule_fault(options.etcd_cuts, &EtcdCluster::cut_etcd);
  schedule_fault(options.both_cuts, &EtcdCluster::cut_both);
  schedule_fault(options.divisions, &EtcdCluster::divide);
  at_some_time(options.joins, [this] {
    if (!end) add_node().note("comes");
  });
  at_some_time(options.strangers, [this] { come_as_stranger(); });
  at_some_time(options.outages, [this] {
    notes.note("etcd is down");
    etcd.go_down(net.milliseconds(kLongFaultMs));
  });
  at_some_time(options.slow_phases, [this] { make_etcd_slow(); });
  at_some_time(options.leader_changes, [this] { etcd.change_leader(); });
  if (options.loses_data)
    net.after(kSettles / 2 + net.milliseconds(options.period_ms), [this] {
      notes.note("etcd loses all its data");
      lost_data = true;
      etcd.lose_data();
    });
  at_some_time(options.all_die ? 1 : 0, [this] { all_die(); });
}

void EtcdCluster::at_some_time(int times, const std::function<void()>& what) {
  for (int i = 0; i < times; ++i) net.after(net.milliseconds(options.period_ms), what);
}

void EtcdCluster::schedule_fault(int times, void (EtcdCluster::*fault)(EtcdAgent&)) {
  at_some_time(times, [this, fault] {
    const auto all = present_nodes();
    if (all.empty() || end) return;
    const auto leader = std::find_if(all.begin(), all.end(), [this](NodeId id) { return node(id).leadership; });
    const bool hits = leader != all.end() && net.chance(options.coordinator_share);
    (this->*fault)(node(hits ? *leader : all[net.draw() % all.size()]));
  });
}

void EtcdCluster::trouble(Duration lasts) { trouble_until_ = std::max(trouble_until_, net.now() + lasts + kSettles); }

// Before a round has formed, contact with etcd alone counts: the lease may be nearly over when it starts.
bool EtcdCluster::is_troubled() const { return net.now() < trouble_until_ || end || net.now() < round_began_ + kLease; }

void EtcdCluster::kill(EtcdAgent& agent) {
  agent.die(net.chance(options.silent));
  net.after(net.milliseconds(kRestartMs), [this, id = agent.id] {
    if (!end) add_node().note("is started instead of node" + std::to_string(id));
  });
}

void EtcdCluster::kill_coordinator() {
  for (const NodeId id : present_nodes())
    if (node(id).leadership) return node(id).die(false);
}

void EtcdCluster::pause(EtcdAgent& agent) {
  if (!agent.is_paused()) agent.pause(1ms + net.milliseconds(net.chance(0.5) ? kShortCutMs : kLongFaultMs));
}

void EtcdCluster::leave_job(EtcdAgent& agent) {
  if (static_cast<int>(present_nodes().size()) >= options.nodes_min + 2 && !agent.left) agent.be_asked_to_leave();
}

void EtcdCluster::cut_nodes(EtcdAgent& agent) {
  const int side = ++sides_;
  const Duration lasts = net.milliseconds(kShortCutMs);
  trouble(lasts);
  for (const NodeId other : present_nodes())
    if (other == agent.id || net.chance(0.3)) {
      node(other).note("is cut from the other nodes");
      net.put(other, side);
      net.after(lasts, [this, other] { net.put(other, 0); });
    }
}

void EtcdCluster::cut_etcd(EtcdAgent& agent) {
  const Duration lasts = std::min(net.milliseconds(options.etcd_cut_ms), last_fault() + kSettles - net.now());
  for (const NodeId other : present_nodes())
    if (other == agent.id || net.chance(options.cut_from_etcd_too)) {
      node(other).note("is cut from etcd");
      etcd.cut(other, lasts);
    }
}

void EtcdCluster::cut_off(EtcdAgent& agent, Duration lasts) {
  net.put(agent.id, ++sides_);
  net.after(lasts, [this, id = agent.id] { net.put(id, 0); });
}

void EtcdCluster::cut_both(EtcdAgent& agent) {
  const Duration lasts = net.milliseconds(kShortCutMs);
  agent.note("is cut from all");
  trouble(lasts);
  etcd.cut(agent.id, lasts);
  cut_off(agent, lasts);
}

void EtcdCluster::divide(EtcdAgent& agent) {
  const Duration lasts = std::chrono::milliseconds(kShortCutMs);
  agent.note("is cut from the other nodes, and those from etcd");
  trouble(lasts);
  cut_off(agent, lasts);
  for (const NodeId other : present_nodes()) {
    if (node(other).leadership) etcd.be_slow(other, lasts, 500 + net.up_to(1'000));
    if (other != agent.id && !node(other).leadership) etcd.cut(other, lasts);
  }
}

void EtcdCluster::come_as_stranger() {
  if (end) return;
  EtcdAgent& stranger = add_node();
  stranger.note("comes, and reaches etcd alone");
  cut_off(stranger, last_fault() - net.now());
}

void EtcdCluster::make_etcd_slow() {
  notes.note("etcd is slow");
  const Duration lasts = net.milliseconds(kLongFaultMs);
  const bool for_some = net.chance(0.5);
  const int most_ms = 1'000 + net.up_to(kSlowMostMs);
  for (const NodeId id : present_nodes())
    if (!for_some || net.chance(0.5)) etcd.be_slow(id, lasts, most_ms);
}

void EtcdCluster::all_die() {
  if (end) return;
  const bool silent = net.chance(0.5);
  for (const NodeId id : present_nodes()) node(id).die(silent);
  for (int i = 0; i < options.agents; ++i)
    net.after(1s + net.milliseconds(kRestartMs), [this] { add_node().note("begins anew"); });
}

}  // namespace ddprun::test
