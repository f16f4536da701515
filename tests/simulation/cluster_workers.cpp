#include "tests/simulation/cluster_workers.h"

#include "tests/simulation/cluster_agent.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr Duration kOverdueAfter = 2s, kTellEvery = 1s;  // of workers that wait for one that hangs

constexpr Duration kConnectAgain = 200ms, kMeetWithin = 60s;
constexpr int kStartUpMs = 10'000;  // while a worker loads its libraries
constexpr double kBroken = 0.5;     // chance that a cut breaks a connection across it
const std::string kArrived = "arrived", kAll = "all";

std::string key_of(int group_rank) { return "node " + std::to_string(group_rank); }

std::string value_of(const JobRound& round, int world_size) {
  return std::to_string(round.job) + "." + std::to_string(round.id.term) + "." + std::to_string(round.id.round) + " " +
         std::to_string(world_size);
}

}  // namespace

void ClusterWorkers::start(const Seat& seat) {
  require(agent_.running.empty(), "no local rank is started twice");
  round_ = {agent_.job, agent_.newest};
  agent_.cluster.checks.on_start(round_);
  keep_snapshots(seat);
  ignoring_sigterm_.clear();
  starting_ = true;
  const double slow_starts = agent_.cluster.options.slow_starts;
  start_from(0, seat, round_, slow_starts > 0 && agent_.net.chance(slow_starts));
}

void ClusterWorkers::start_from(int rank, const Seat& seat, const JobRound& of_round, bool slowly) {
  if (agent_.stands())
    return agent_.on_loop([this, rank, seat, of_round, slowly] { start_from(rank, seat, of_round, slowly); });
  if (!agent_.is_present() || round_ != of_round || !starting_) return;
  Cluster& cluster = agent_.cluster;
  for (bool first = true; rank < seat.workers; ++rank) {
    if (!std::exchange(first, false) && slowly)
      return cluster.net.after(cluster.net.milliseconds(1'000),
                               [this, rank, seat, of_round] { start_from(rank, seat, of_round, true); });
    if (fences > 0 && cluster.options.bug != Bug::old_orders) return;
    cluster.checks.on_worker(agent_.id, of_round);
    agent_.running.insert(rank);
    cluster.checks.count_running(of_round, 1);
    if (cluster.net.chance(cluster.options.ignore_sigterm)) ignoring_sigterm_.insert(rank);
    agent_.dispatch(agent::WorkerStarted{seat.round, rank});
  }
  starting_ = false;
  agent_.store.open_session(seat, round_);
}

// Of its own ranks and those of the node before: what they go on from, and some steps of this round.
void ClusterWorkers::keep_snapshots(const Seat& seat) {
  const std::vector<RoundNode>& nodes = agent_.cluster.checks.nodes_of(round_);
  const auto own = static_cast<std::size_t>(seat.group_rank);
  std::vector<HeldSnapshot> held;
  for (const std::size_t at : {own, (own + nodes.size() - 1) % nodes.size()})
    for (int rank = nodes[at].first_rank; rank < nodes[at].first_rank + nodes[at].workers; ++rank) {
      if (seat.kept) held.push_back({rank, seat.world_size, seat.kept->round, seat.kept->step});
      const int steps = (seat.round + rank) % 3 == 0 ? 1 : 2;
      for (int step = 1; step <= steps; ++step)
        held.push_back({rank, seat.world_size, seat.round, static_cast<std::uint64_t>(step)});
    }
  agent_.offer.held = held;
}

void ClusterWorkers::signal(int number) {
  if (!agent_.stands()) starting_ = false;
  for (const int rank : agent_.running) {
    if (number != SIGKILL && ignoring_sigterm_.contains(rank)) continue;
    agent_.net.after(agent_.net.milliseconds(number == SIGKILL ? 20 : 500),
                     [this, of_round = round_, rank, number] { end_one(of_round, rank, {.signal = number}); });
  }
}

void ClusterWorkers::be_killed() {
  agent_.cluster.checks.count_running(round_, -static_cast<int>(agent_.running.size()));
  agent_.running.clear();
  agent_.store.close_session();
}

// Processes that a driver blocks end late, or are given up.
void ClusterWorkers::sweep(int round) {
  starting_ = false;
  require(agent_.running.empty(), "a round is swept when its workers are gone");
  if (!agent_.net.chance(agent_.cluster.options.slow_sweep)) return agent_.dispatch(agent::Swept{round});
  agent_.note("the kernel holds what is left of its workers");
  agent_.net.after(agent_.net.milliseconds(12'000), [this, round] { agent_.dispatch(agent::Swept{round}); });
}

void ClusterWorkers::train() {
  Cluster& cluster = agent_.cluster;
  if (cluster.hanging.contains(round_)) return hang();
  const auto failing = cluster.failing.find(round_);
  for (const int rank : agent_.running) {
    ExitStatus status;
    if (failing != cluster.failing.end() && failing->second == agent_.id && rank == 0)
      status = cluster.net.chance(0.5) ? ExitStatus{.signal = SIGKILL} : ExitStatus{.code = 1};
    cluster.net.after(30s + cluster.net.milliseconds(60'000),
                      [this, of_round = round_, rank, status] { end_one(of_round, rank, status); });
  }
}

void ClusterWorkers::end_one(const JobRound& of_round, int local_rank, const ExitStatus& status) {
  if (round_ != of_round || !agent_.running.erase(local_rank)) return;  // it has ended already
  agent_.cluster.checks.count_running(of_round, -1);
  if (agent_.running.empty()) agent_.store.close_session();
  agent_.dispatch(agent::WorkerExited{of_round.id.round, local_rank, status});
}

// A worker of the round hangs, and the others wait for it. Their agents tell the coordinator once they are overdue, as
// long as they run.
void ClusterWorkers::hang() {
  agent_.net.after(kOverdueAfter + agent_.net.milliseconds(1000), [this, of_round = round_] {
    const auto tell = [this, of_round](const auto& again) -> void {
      if (round_ != of_round || agent_.running.empty() || !agent_.is_present()) return;
      send_standings();
      agent_.net.after(kTellEvery, [again] { again(again); });
    };
    tell(tell);
  });
}

bool ClusterWorkers::one_hangs_here() const {
  const auto hanging = agent_.cluster.hanging.find(round_);
  return hanging != agent_.cluster.hanging.end() && hanging->second == agent_.id;
}

void ClusterWorkers::send_standings() {
  const auto& session = agent_.store.session();
  if (!session || agent_.stands()) return;
  std::vector<Standing> standings;
  for (const int local_rank : agent_.running) {
    Standing& one = standings.emplace_back(Standing{.rank = session->seat.first_rank + local_rank});
    if (!agent_.cluster.hanging.contains(round_) || !session->all_arrived) continue;
    one.activity = one_hangs_here() && local_rank == 0 ? Activity::compute : Activity::wait;
    one.step = 41;
    one.age = std::max(kOverdueAfter, agent_.now() - session->trains_since);
    one.overdue = true;
  }
  agent_.from_loop(NodeStandings{agent_.id, round_.id.round, std::move(standings)});
}

void ClusterWorkers::on_asked(const AskStandings& asked) {
  if (asked.round == round_.id.round) send_standings();
}

void ClusterWorkers::blame(const BlameWorker& blamed) {
  const auto& session = agent_.store.session();
  if (round_.id.round != blamed.round || !session || !agent_.running.contains(0)) return;
  if (!one_hangs_here() || blamed.rank != session->seat.first_rank)
    require(false, "only the worker that hangs is blamed: " + blamed.text);
  ++agent_.cluster.hangs_found;
  agent_.note("its worker hangs: " + blamed.text);
  agent_.dispatch(agent::WorkerDying{blamed.round, 0, {.hung = true}});
}

void StoreSessions::open_store() {
  if (agent_.cluster.options.bug != Bug::old_keys || !store_) store_.emplace();
  for (const auto& [link, client] : store_->clients) store_->keys.forget(static_cast<ClientId>(link));
  store_->clients.clear();
  store_->serial = ++serials_;
}

void StoreSessions::open_session(const Seat& seat, const JobRound& round) {
  const auto at = static_cast<NodeId>(std::stoull(seat.master_host.substr(4)));  // "node12"
  session_ = Session{.serial = ++serials_, .at = at, .round = round, .seat = seat};
  agent_.net.after(kMeetWithin, [this, serial = serials_] {
    if (waits(serial)) lose("the others did not come to the store in time");
  });
  agent_.net.after(agent_.net.milliseconds(kStartUpMs), [this, serial = serials_] { connect(serial); });
}

// For the others of its round.
bool StoreSessions::waits(int serial) const { return session_ && session_->serial == serial && !session_->all_arrived; }

void StoreSessions::connect(int serial) {
  if (!waits(serial)) return;
  Session& session = *session_;
  ClusterAgent& host = agent_.cluster.node(session.at);
  auto& store = host.store.store_;
  if (!agent_.net.reaches(agent_.id, session.at) || !host.listens() || !store)
    return agent_.net.after(kConnectAgain, [this, serial] { connect(serial); });
  session.link = agent_.net.open(agent_.id, session.at);
  session.store = store->serial;
  store->clients[session.link] = agent_.id;
  send({{.op = Op::set,
         .keys = {key_of(session.seat.group_rank)},
         .values = {value_of(session.round, session.seat.world_size)}},
        {.op = Op::add, .keys = {kArrived}, .number = session.seat.workers}});
}

void StoreSessions::send(const std::vector<Request>& requests) {
  StoreSessions& there = agent_.cluster.node(session_->at).store;
  agent_.net.send(session_->link, session_->at, [&there, link = session_->link, store = session_->store, requests] {
    there.carry_out(link, store, requests);
  });
}

void StoreSessions::carry_out(Network::LinkId link, int store, const std::vector<Request>& requests) {
  for (const Request& request : requests) {
    if (!agent_.listens() || !store_ || store_->serial != store) return;  // the store's end closes the connection
    for (Answer& answer : store_->keys.on(static_cast<ClientId>(link), request)) {
      const auto client = static_cast<Network::LinkId>(answer.to);
      StoreSessions& to = agent_.cluster.node(store_->clients.at(client)).store;
      agent_.net.send(client, to.agent_.id, [&to, client, reply = std::move(answer.reply)] {
        if (to.session_ && to.session_->link == client) to.on_reply(reply);
      });
    }
  }
}

void StoreSessions::on_reply(const Reply& reply) {
  const Seat& seat = session_->seat;
  const std::string expected = value_of(session_->round, seat.world_size);
  if (const auto* arrived = std::get_if<Number>(&reply)) {
    require(arrived->value <= seat.world_size, "no more workers come to a store than are in a round");
    std::vector<Request> requests;
    if (arrived->value == seat.world_size)  // the last to arrive
      requests.push_back({.op = Op::set, .keys = {kAll}, .values = {expected}});
    requests.push_back({.op = Op::wait, .keys = {kAll}});
    return send(requests);
  }
  if (std::holds_alternative<Flag>(reply)) {
    const int neighbour = (seat.group_rank + 1) % seat.group_world_size;
    return send({{.op = Op::multi_get, .keys = {kAll, key_of(neighbour)}}});
  }
  for (const Value& value : std::get<Values>(reply).values)
    if (*value != expected)
      require(false, "workers see the keys of their own round, and one world size: node" + std::to_string(agent_.id) +
                         " is in " + expected + " and sees \"" + *value + "\"");
  session_->all_arrived = true;
  session_->trains_since = agent_.now();
  agent_.workers.train();
}

// Its workers fail instead of waiting forever; one of them fails first.
void StoreSessions::lose(const std::string& why) {
  close_session();
  if (agent_.running.empty()) return;
  agent_.note(why);
  agent_.workers.end_one(JobRound(agent_.workers.round()), *agent_.running.begin(), {.code = 1});
}

void StoreSessions::close_session() {
  const auto session = std::exchange(session_, std::nullopt);
  if (!session || session->link == 0) return;
  agent_.net.close(session->link);
  agent_.net.after(5ms, [&there = agent_.cluster.node(session->at).store, link = session->link,
                         store = session->store] { there.forget(link, store); });
}

void StoreSessions::forget(Network::LinkId client, int store) {
  if (store_ && store_->serial == store && store_->clients.erase(client))
    store_->keys.forget(static_cast<ClientId>(client));
}

void StoreSessions::on_store_gone(NodeId at) {
  if (session_ && session_->at == at && session_->link != 0 && !session_->all_arrived) lose("the store is gone");
}

void StoreSessions::on_cut() {
  if (!session_ || session_->link == 0 || session_->all_arrived || agent_.net.reaches(agent_.id, session_->at) ||
      !agent_.net.chance(kBroken))
    return;
  agent_.net.after(agent_.net.milliseconds(2'000), [this, serial = session_->serial] {
    if (waits(serial)) lose("its connection to the store broke");
  });
}

}  // namespace ddprun::test
