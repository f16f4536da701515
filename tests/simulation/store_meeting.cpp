// How a round's workers meet at the store of its first node, before they train: as a stock program does, over the same
// simulated network. A node's workers share one connection and one arrival, so that a thousand nodes
// are cheap.
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
void Cluster::open_store(rendezvous::NodeId id, const JobRound& round) {
  auto& store = node(id).store;
  if (options_.broken != Break::old_keys || !store) store.emplace();
  for (const auto& [link, client] : store->clients) store->keys.forget(static_cast<rendezvous::ClientId>(link));
  store->clients.clear();
  store->serial = ++stores_;
  store->round = round;
}

void Cluster::meet(rendezvous::NodeId id, const rendezvous::Seat& seat) {
  const auto at = static_cast<rendezvous::NodeId>(std::stoull(seat.master_host.substr(4)));  // "node12"
  node(id).visit = Visit{.serial = ++visits_, .at = at, .round = node(id).round, .seat = seat};
  net_.after(kMeetWithin, [this, id, serial = visits_] {
    if (visits(id, serial) && !node(id).visit->met) store_lost(id, "the others did not come to the store in time");
  });
  net_.after(net_.milliseconds(kStartUpMs), [this, id, serial = visits_] { look_for_store(id, serial); });
}

bool Cluster::visits(rendezvous::NodeId id, int serial) {
  const auto& visit = node(id).visit;
  return visit && visit->serial == serial;
}

void Cluster::look_for_store(rendezvous::NodeId id, int serial) {
  if (!visits(id, serial)) return;
  Visit& visit = *node(id).visit;
  const Node& host = node(visit.at);
  if (!net_.reaches(id, visit.at) || !listens(visit.at) || !host.store)
    return net_.after(kConnectAgain, [this, id, serial] { look_for_store(id, serial); });
  visit.link = net_.open(id, visit.at);
  visit.store = host.store->serial;
  node(visit.at).store->clients[visit.link] = id;
  ask_store(id, {{.op = rendezvous::Op::set,
                  .keys = {key_of(visit.seat.group_rank)},
                  .values = {value_of(visit.round, visit.seat.world_size)}},
                 {.op = rendezvous::Op::add, .keys = {kArrived}, .number = visit.seat.workers}});
}

void Cluster::ask_store(rendezvous::NodeId id, const std::vector<rendezvous::Request>& requests) {
  const Visit& visit = *node(id).visit;
  net_.send(visit.link, visit.at, [this, at = visit.at, link = visit.link, store = visit.store, requests] {
    for (const rendezvous::Request& request : requests) {
      Node& host = node(at);
      if (!listens(at) || !host.store || host.store->serial != store) return;  // the store's end closes the connection
      for (rendezvous::Answer& answer : host.store->keys.on(static_cast<rendezvous::ClientId>(link), request)) {
        const auto client = static_cast<Network::LinkId>(answer.to);
        const rendezvous::NodeId to = host.store->clients.at(client);
        net_.send(client, to, [this, to, client, reply = std::move(answer.reply)] {
          if (node(to).visit && node(to).visit->link == client) hear_store(to, reply);
        });
      }
    }
  });
}

void Cluster::hear_store(rendezvous::NodeId id, const rendezvous::Reply& reply) {
  Visit& visit = *node(id).visit;
  const int world_size = visit.seat.world_size;
  if (const auto* arrived = std::get_if<rendezvous::Number>(&reply)) {
    if (arrived->value > world_size)
      throw std::logic_error("broken: no more workers come to a store than are in a round");
    std::vector<rendezvous::Request> requests;
    if (arrived->value == world_size)  // the last to arrive
      requests.push_back({.op = rendezvous::Op::set, .keys = {kAll}, .values = {value_of(visit.round, world_size)}});
    requests.push_back({.op = rendezvous::Op::wait, .keys = {kAll}});
    return ask_store(id, requests);
  }
  if (std::holds_alternative<rendezvous::Flag>(reply)) {
    const int neighbour = (visit.seat.group_rank + 1) % visit.seat.group_world_size;
    return ask_store(id, {{.op = rendezvous::Op::multi_get, .keys = {kAll, key_of(neighbour)}}});
  }
  for (const rendezvous::Value& value : std::get<rendezvous::Values>(reply).values)
    if (*value != value_of(visit.round, world_size))
      throw std::logic_error("broken: workers see the keys of their own round, and one world size: node" +
                             std::to_string(id) + " is in " + value_of(visit.round, world_size) + " and sees \"" +
                             *value + "\"");
  visit.met = true;
  train(id);
}

void Cluster::train(rendezvous::NodeId id) {
  Node& self = node(id);
  const auto failing = failing_.find(self.round);
  for (const int rank : self.running) {
    rendezvous::ExitStatus status;
    if (failing != failing_.end() && failing->second == id && rank == 0)
      status = net_.chance(0.5) ? rendezvous::ExitStatus{.signal = SIGKILL} : rendezvous::ExitStatus{.code = 1};
    net_.after(30s + net_.milliseconds(60'000),
               [this, id, round = self.round, rank, status] { end_worker(id, round, rank, status); });
  }
}

// Its workers fail instead of waiting forever; one of them fails first.
void Cluster::store_lost(rendezvous::NodeId id, const std::string& why) {
  leave_store(id);
  const Node& self = node(id);
  if (self.running.empty()) return;
  note(id, why);
  end_worker(id, JobRound(self.round), *self.running.begin(), {.code = 1});
}

// Called with the end of its last worker.
void Cluster::leave_store(rendezvous::NodeId id) {
  const auto visit = std::exchange(node(id).visit, std::nullopt);
  if (!visit || visit->link == 0) return;
  net_.close(visit->link);
  net_.after(5ms, [this, at = visit->at, link = visit->link, store = visit->store] {
    auto& there = node(at).store;
    if (there && there->serial == store && there->clients.erase(link))
      there->keys.forget(static_cast<rendezvous::ClientId>(link));
  });
}

// A client that waits there sees its connection close, if reachable.
void Cluster::close_store(rendezvous::NodeId at, rendezvous::NodeId client) {
  if (const auto& visit = node(client).visit; visit && visit->at == at && visit->link != 0 && !visit->met)
    store_lost(client, "the store is gone");
}

// Some connections to stores break at the cut, the others on their next use or not at all.
void Cluster::break_visits() {
  for (const auto& one : nodes_)
    if (one->visit && one->visit->link != 0 && !one->visit->met && !net_.reaches(one->id, one->visit->at) &&
        net_.chance(kBroken))
      net_.after(net_.milliseconds(2'000), [this, id = one->id, serial = one->visit->serial] {
        if (visits(id, serial) && !node(id).visit->met) store_lost(id, "its connection to the store broke");
      });
}

}  // namespace ddprun::test
