#include "agent/round/round_store.h"

#include <future>

#include "agent/link/coordination.h"
#include "rendezvous/base/overloaded.h"
#include "rendezvous/store/client.h"
#include "tests/support/no_threads.h"
#include "tests/support/test.h"

namespace {

// Notes the rounds whose store was offered, and dials nobody.
class NoCoordination : public Coordination {
 public:
  void start() override {}
  bool send(const FromAgent&) override { return false; }
  bool connected() const override { return false; }
  void cut(ddprun::Duration) override {}
  NodeId node() const override { return 1; }
  void offer_store(int round, const StoreGateway&) override { offered.push_back(round); }
  std::unique_ptr<StoreDialer> dial_store(const Seat& seat, const StoreUpstream& proxy) override {
    dialed.push_back(seat.round);
    proxy.failed("nobody is there");
    return nullptr;
  }
  std::unique_ptr<LinkDialer> dial_copies(const ControlAddress&, LinkDialer::Hooks) override { return {}; }
  bool may_leave() const override { return true; }
  void leave() override {}
  bool all_left(std::chrono::milliseconds) override { return true; }

  std::vector<int> offered, dialed;
};

struct Rig {
  asio::io_context io = {};
  RoundOptions options;
  RoundStore store{io, options, {[](const std::string&) {}, [](int, const std::string&) {}}};
};

RoundOptions options_of_several_nodes(bool proxy) {
  RoundOptions options;
  options.several_nodes = true;
  options.store_proxy = proxy;
  return options;
}

std::int64_t keys_at(std::uint16_t port) {
  return Client({.host = "127.0.0.1", .port = port, .timeout = 20s}).num_keys();
}

}  // namespace

TEST_CASE("every round has a fresh store at another port", "[round_store]") {
  Rig rig{.options = options_of_several_nodes(false)};
  CHECK(rig.store.port() == 0);
  rig.store.open();
  const std::uint16_t first = rig.store.port();
  Client({.host = "127.0.0.1", .port = first, .timeout = 20s}).set("old", "");
  rig.store.open();
  CHECK(rig.store.port() != first);
  CHECK(keys_at(rig.store.port()) == 0);
  rig.store.close();
  CHECK(rig.store.port() == 0);
}

TEST_CASE("the store of a job of one node serves from its first client on, in each round", "[round_store]") {
  Rig rig;
  for (int round = 0; round < 2; ++round) {
    rig.store.open();
    auto keys = std::async(std::launch::async, keys_at, rig.store.port());
    for (; keys.wait_for(0s) != std::future_status::ready; rig.io.restart()) rig.io.run_one_for(10ms);
    CHECK(keys.get() == 0);
    rig.store.open();  // nobody asks it
  }
}

TEST_CASE("workers find the round's store where they are told, or at their own node's proxy", "[round_store]") {
  const Seat local{.round = 4, .master_host = "node0", .master_port = 29500};
  const Seat elsewhere{.round = 4, .group_rank = 1, .master_host = "node0", .master_port = 29500};
  NoCoordination coordination;
  Rig direct{.options = options_of_several_nodes(false)};
  direct.store.open();
  CHECK(direct.store.seat_for_workers(local).master_host == "node0");
  Rig by_proxy{.options = options_of_several_nodes(true)};
  by_proxy.store.open();
  by_proxy.store.open_proxy(local, coordination);
  CHECK(coordination.offered == std::vector{4});
  CHECK(by_proxy.store.seat_for_workers(local).master_host == "127.0.0.1");
  CHECK(by_proxy.store.seat_for_workers(local).master_port == by_proxy.store.port());
  by_proxy.store.open_proxy(elsewhere, coordination);
  CHECK(coordination.dialed == std::vector{4});
  CHECK(by_proxy.store.seat_for_workers(elsewhere).master_host == "127.0.0.1");
  CHECK(by_proxy.store.seat_for_workers(elsewhere).master_port != by_proxy.store.port());
}

TEST_CASE("where a store is reached through the agents only, every node's workers find it on loopback",
          "[round_store]") {
  NoCoordination coordination;
  Rig first{.options = options_of_several_nodes(false)}, second{.options = options_of_several_nodes(false)};
  first.options.store_through_agents = true;
  first.store.open();
  CHECK(first.store.port() == 0);  // what the others are told
  const Seat own{.round = 4, .master_host = "outside", .master_port = first.store.port()};
  CHECK(first.store.is_through_agents(own));
  CHECK(first.store.seat_for_workers(own).master_host == "127.0.0.1");
  CHECK(keys_at(first.store.seat_for_workers(own).master_port) == 0);
  second.store.open();
  Seat other = own;
  other.group_rank = 1;
  CHECK(second.store.is_through_agents(other));
  second.store.open_proxy(other, coordination);
  CHECK(coordination.dialed == std::vector{4});
  CHECK(second.store.seat_for_workers(other).master_host == "127.0.0.1");
}

TEST_CASE("a store and a proxy that can have no thread begin to serve later", "[round_store]") {
  NoCoordination coordination;
  Rig rig{.options = options_of_several_nodes(true)};
  {
    const NoThreads none;
    rig.store.open();
    rig.store.open_proxy({.round = 4, .group_rank = 1}, coordination);
  }
  rig.io.run_for(2s);  // it tries again
  CHECK(keys_at(rig.store.port()) == 0);
}

TEST_CASE("a job of one node forms, confirms and starts its round inside start(), without a turn of the loop",
          "[coordination]") {
  asio::io_context io;
  std::vector<std::string> received;
  std::unique_ptr<Coordination> here;
  Coordination::Hooks hooks;
  hooks.on_connected = [&] { here->send(NodeReady{here->node(), {.workers = 2, .port = 29500}}); };
  hooks.on_message = [&](const ToAgent& message) {
    std::visit(overloaded{
                   [&](const TakeSeat& m) {
                     received.push_back("seat");
                     here->send(NodeConfirmed{here->node(), m.seat.round});
                   },
                   [&](const StartRound&) { received.push_back("start"); },
                   [&](const auto&) { received.push_back("another"); },
               },
               message);
  };
  here = make_local_coordination(io, {}, hooks);
  here->start();
  CHECK(received == std::vector<std::string>{"seat", "start"});
}
