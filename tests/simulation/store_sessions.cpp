#include "tests/simulation/store_sessions.h"

#include <utility>
#include <variant>

#include "tests/simulation/cluster_agent.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;

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

void StoreSessions::open_store() {
  if (agent_.world.options.bug != Bug::old_keys || !store_) store_.emplace();
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
  ClusterAgent& host = agent_.world.node(session.at);
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
  StoreSessions& there = agent_.world.node(session_->at).store;
  agent_.net.send(session_->link, session_->at, [&there, link = session_->link, store = session_->store, requests] {
    there.carry_out(link, store, requests);
  });
}

void StoreSessions::carry_out(Network::LinkId link, int store, const std::vector<Request>& requests) {
  for (const Request& request : requests) {
    if (!agent_.listens() || !store_ || store_->serial != store) return;  // the store's end closes the connection
    for (Answer& answer : store_->keys.on(static_cast<ClientId>(link), request)) {
      const auto client = static_cast<Network::LinkId>(answer.to);
      StoreSessions& to = agent_.world.node(store_->clients.at(client)).store;
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
  agent_.net.after(5ms, [&there = agent_.world.node(session->at).store, link = session->link, store = session->store] {
    there.forget(link, store);
  });
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
