// Our client as LibTorch's callers use it, beside LibTorch's own: on our server and on theirs.
#include "trainer/ddp/group/store_adapter.h"

#include <c10/util/Exception.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/store/server.h"
#include "tests/support/test.h"

using c10::make_intrusive;
using Store = c10::intrusive_ptr<c10d::Store>;
using Bytes = std::vector<std::uint8_t>;

namespace {

Store ours(std::uint16_t port, Duration timeout = 20s) {
  return make_intrusive<StoreAdapter>(Client::Options{.host = "127.0.0.1", .port = port, .timeout = timeout});
}

c10::intrusive_ptr<c10d::TCPStore> theirs(std::uint16_t port, bool serves) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = serves;
  options.waitWorkers = false;
  options.timeout = 20s;
  return make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

Bytes bytes(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

TEST_CASE("what one of LibTorch's clients and ours says to a store, the other reads", "[store-adapter]") {
  const bool on_our_server = GENERATE(true, false);
  const Server server({.address = "127.0.0.1"});
  const Store torch = theirs(on_our_server ? server.port() : 0, !on_our_server);
  const Store adapter = ours(dynamic_cast<c10d::TCPStore&>(*torch).getPort());
  for (const auto& [writing, reading] : {std::pair(torch, adapter), std::pair(adapter, torch)}) {
    c10d::PrefixStore to("round/1", writing), from("round/1", reading);
    to.set("k", bytes("v"));
    CHECK(from.get("k") == bytes("v"));
    to.append("k", bytes("w"));
    to.check({"k"});  // an append has no answer: now it is done
    CHECK(from.get_to_str("k") == "vw");
    CHECK(from.compareSet("k", "vw", "x") == "x");
    CHECK(to.compareSet("k", "vw", "y") == "x");
    CHECK(to.add("n", 5) == 5);
    CHECK(from.add("n", -7) == -2);
    to.multiSet({"a", "b"}, {bytes("1"), bytes("")});
    CHECK(from.multiGet({"b", "a"}) == std::vector<Bytes>{bytes(""), bytes("1")});
    CHECK(from.check({"a", "b", "k"}));
    CHECK_FALSE(from.check({"a", "z"}));
    from.wait({"a", "b"});
    CHECK(to.getNumKeys() == from.getNumKeys());
    auto keys = to.listKeys(), same = from.listKeys();
    std::sort(keys.begin(), keys.end());
    std::sort(same.begin(), same.end());
    CHECK(keys == same);
    to.queuePush("q", bytes("1"));
    to.queuePush("q", bytes("2"));
    CHECK(to.queueLen("q") == 2);
    CHECK(from.queueLen("q") == 2);
    CHECK(from.queuePop("q", true) == bytes("1"));
    CHECK(from.queuePop("q", false) == bytes("2"));
    CHECK_THROWS_AS(from.queuePop("q", false), c10::DistQueueEmptyError);
    for (const char* key : {"k", "n", "a", "b"}) CHECK(to.deleteKey(key));
    CHECK_FALSE(from.deleteKey("k"));
    CHECK(to.hasExtendedApi());
  }
}

TEST_CASE("the time-out of a store, or of one wait, holds for our client as LibTorch's callers set it",
          "[store-adapter]") {
  const Server server({.address = "127.0.0.1"});
  const Store store = ours(server.port());
  CHECK(store->getTimeout() == 20s);
  CHECK_THROWS_AS(store->wait({"lost"}, 20ms), c10::DistStoreError);
  {
    const c10d::StoreTimeoutGuard guard(*store, 20ms);
    CHECK_THROWS_AS(store->get("lost"), c10::DistStoreError);
    CHECK_THROWS_AS(store->multiGet({"lost"}), c10::DistStoreError);
    CHECK_THROWS_AS(store->queuePop("lost", true), c10::DistStoreError);
    CHECK(store->clone()->getTimeout() == 20ms);
  }
  store->set("k", bytes("v"));
  store->wait({"k"}, -1ms);  // no limit
  CHECK(store->get("k") == bytes("v"));
}

TEST_CASE("a clone is a connection of its own: who waits there keeps nobody waiting", "[store-adapter]") {
  const Server server({.address = "127.0.0.1"});
  const Store store = ours(server.port()), clone = store->clone();
  std::thread waiting([&] { clone->wait({"k"}); });
  store->set("k", bytes("v"));
  waiting.join();
}

TEST_CASE("a store that is gone, or hangs, is an error of LibTorch's kind, in time", "[store-adapter]") {
  std::optional<Server> server(std::in_place, Server::Options{.address = "127.0.0.1"});
  const Store store = ours(server->port(), 200ms);
  server.reset();
  CHECK_THROWS_AS(store->get("k"), c10::DistError);
  const Listening hanging = open_listener("127.0.0.1", 0);  // accepted by the kernel, never answered
  CHECK_THROWS_AS(ours(hanging.port, 100ms), TimeoutError);
  close(hanging.fd);
}
