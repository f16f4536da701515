// How a round's workers meet at the store of its first node, before they train: as a stock program does, over the same
// simulated network. A node's workers share one connection and one arrival, so that a thousand nodes are cheap.
#include <csignal>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "tests/simulation/cluster.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;

constexpr Duration kConnectAgain = 200ms, kMeetWithin = 60s;
constexpr int kStartUpMs = 10'000;  // while a worker loads its libraries
constexpr double kBroken = 0.5;     // chance that a cut breaks a connection across it
const std::string kArrived = "arrived", kAll = "all";

std::string key_of(int group_rank) { return "node " + std::to_string(group_rank); }

template <class JobRound>
std::string value_of(const JobRound& round, int world_size) {
  return std::to_string(round.job) + "." + std::to_string(round.id.term) + "." + std::to_string(round.id.round) + " " +
         std::to_string(world_size);
}

}  // namespace

Cluster::RoundStore::RoundStore() = default;

// Called before its seat is confirmed, so before any worker connects.
void Cluster::open_store(NodeId id, const JobRound& round) {
  auto& store = node(id).store;
  if (options_.bug != Bug::old_keys || !store) store.emplace();
  for (const auto& [link, client] : store->clients) store->keys.forget(static_cast<ClientId>(link));
  store->clients.clear();
  store->serial = ++stores_;
  store->round = round;
}

void Cluster::open_store_session(NodeId id, const Seat& seat) {
  const auto at = static_cast<NodeId>(std::stoull(seat.master_host.substr(4)));  // "node12"
  node(id).store_session = StoreSession{.serial = ++sessions_, .at = at, .round = node(id).round, .seat = seat};
  net_.after(kMeetWithin, [this, id, serial = sessions_] {
    if (has_session(id, serial) && !node(id).store_session->all_arrived)
      store_lost(id, "the others did not come to the store in time");
  });
  net_.after(net_.milliseconds(kStartUpMs), [this, id, serial = sessions_] { connect_to_store(id, serial); });
}

bool Cluster::has_session(NodeId id, int serial) {
  const auto& session = node(id).store_session;
  return session && session->serial == serial;
}

void Cluster::connect_to_store(NodeId id, int serial) {
  if (!has_session(id, serial)) return;
  StoreSession& session = *node(id).store_session;
  const Node& host = node(session.at);
  if (!net_.reaches(id, session.at) || !listens(session.at) || !host.store)
    return net_.after(kConnectAgain, [this, id, serial] { connect_to_store(id, serial); });
  session.link = net_.open(id, session.at);
  session.store = host.store->serial;
  node(session.at).store->clients[session.link] = id;
  send_to_store(id, {{.op = Op::set,
                      .keys = {key_of(session.seat.group_rank)},
                      .values = {value_of(session.round, session.seat.world_size)}},
                     {.op = Op::add, .keys = {kArrived}, .number = session.seat.workers}});
}

void Cluster::send_to_store(NodeId id, const std::vector<Request>& requests) {
  const StoreSession& session = *node(id).store_session;
  net_.send(session.link, session.at, [this, at = session.at, link = session.link, store = session.store, requests] {
    for (const Request& request : requests) {
      Node& host = node(at);
      if (!listens(at) || !host.store || host.store->serial != store) return;  // the store's end closes the connection
      for (Answer& answer : host.store->keys.on(static_cast<ClientId>(link), request)) {
        const auto client = static_cast<Network::LinkId>(answer.to);
        const NodeId to = host.store->clients.at(client);
        net_.send(client, to, [this, to, client, reply = std::move(answer.reply)] {
          if (node(to).store_session && node(to).store_session->link == client) on_store_reply(to, reply);
        });
      }
    }
  });
}

void Cluster::on_store_reply(NodeId id, const Reply& reply) {
  StoreSession& session = *node(id).store_session;
  const int world_size = session.seat.world_size;
  if (const auto* arrived = std::get_if<Number>(&reply)) {
    if (arrived->value > world_size)
      throw std::logic_error("broken: no more workers come to a store than are in a round");
    std::vector<Request> requests;
    if (arrived->value == world_size)  // the last to arrive
      requests.push_back({.op = Op::set, .keys = {kAll}, .values = {value_of(session.round, world_size)}});
    requests.push_back({.op = Op::wait, .keys = {kAll}});
    return send_to_store(id, requests);
  }
  if (std::holds_alternative<Flag>(reply)) {
    const int neighbour = (session.seat.group_rank + 1) % session.seat.group_world_size;
    return send_to_store(id, {{.op = Op::multi_get, .keys = {kAll, key_of(neighbour)}}});
  }
  for (const Value& value : std::get<Values>(reply).values)
    if (*value != value_of(session.round, world_size))
      throw std::logic_error("broken: workers see the keys of their own round, and one world size: node" +
                             std::to_string(id) + " is in " + value_of(session.round, world_size) + " and sees \"" +
                             *value + "\"");
  session.all_arrived = true;
  session.trains_since = net_.now();
  train(id);
}

void Cluster::train(NodeId id) {
  Node& self = node(id);
  if (hanging_.contains(self.round)) return hang(id);
  const auto failing = failing_.find(self.round);
  for (const int rank : self.running) {
    ExitStatus status;
    if (failing != failing_.end() && failing->second == id && rank == 0)
      status = net_.chance(0.5) ? ExitStatus{.signal = SIGKILL} : ExitStatus{.code = 1};
    net_.after(30s + net_.milliseconds(60'000),
               [this, id, round = self.round, rank, status] { end_worker(id, round, rank, status); });
  }
}

// Its workers fail instead of waiting forever; one of them fails first.
void Cluster::store_lost(NodeId id, const std::string& why) {
  close_store_session(id);
  const Node& self = node(id);
  if (self.running.empty()) return;
  note(id, why);
  end_worker(id, JobRound(self.round), *self.running.begin(), {.code = 1});
}

// Called with the end of its last worker.
void Cluster::close_store_session(NodeId id) {
  const auto session = std::exchange(node(id).store_session, std::nullopt);
  if (!session || session->link == 0) return;
  net_.close(session->link);
  net_.after(5ms, [this, at = session->at, link = session->link, store = session->store] {
    auto& there = node(at).store;
    if (there && there->serial == store && there->clients.erase(link)) there->keys.forget(static_cast<ClientId>(link));
  });
}

// A client that waits there sees its connection close, if reachable.
void Cluster::close_store(NodeId at, NodeId client) {
  if (const auto& session = node(client).store_session;
      session && session->at == at && session->link != 0 && !session->all_arrived)
    store_lost(client, "the store is gone");
}

// Some connections to stores break at the cut, the others on their next use or not at all.
void Cluster::break_store_sessions() {
  for (const auto& one : nodes_)
    if (one->store_session && one->store_session->link != 0 && !one->store_session->all_arrived &&
        !net_.reaches(one->id, one->store_session->at) && net_.chance(kBroken))
      net_.after(net_.milliseconds(2'000), [this, id = one->id, serial = one->store_session->serial] {
        if (has_session(id, serial) && !node(id).store_session->all_arrived)
          store_lost(id, "its connection to the store broke");
      });
}

}  // namespace ddprun::test
