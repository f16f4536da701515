// A store that is full, and clients that would take more than there is.
#include "rendezvous/store/store_memory.h"

#include "rendezvous/store/server.h"
#include "rendezvous/store/store.h"
#include "tests/rendezvous/store/random_requests.h"
#include "tests/rendezvous/store/raw_peer.h"
#include "tests/support/test.h"

namespace {

constexpr auto kSoon = 20s;
constexpr std::size_t kBytesMax = 1 << 20;

Request push(std::string key, std::string value) { return {Op::queue_push, {std::move(key)}, {std::move(value)}}; }

// A store, and whether it refuses.
struct Full {
  std::shared_ptr<StoreMemory> memory = std::make_shared<StoreMemory>(kBytesMax);
  Store store{memory};

  bool refuses(const Request& request, CloseConnection::Why why = CloseConnection::Why::store_full) {
    for (const Answer& answer : store.on(1, request))
      if (const auto* closing = std::get_if<CloseConnection>(&answer.reply)) return closing->why == why;
    return false;
  }
  // Until it is full; how many it took.
  int fill(const std::function<Request(int)>& request) {
    int i = 0;
    while (i < 1'000'000 && !refuses(request(i))) ++i;
    return i;
  }
};

std::string number(int i) { return std::to_string(i); }

}  // namespace

TEST_CASE("a full store refuses what would make it grow, whatever the operation", "[store_memory]") {
  Full full;
  CHECK(full.refuses(set("large", std::string(kBytesMax, 'x'))));
  full.store.on(1, add("counter", 1));
  full.store.on(1, set("text", std::string(1000, 'x')));
  CHECK(full.fill([](int i) { return set("k" + number(i), std::string(10'000, 'x')); }) > 90);
  full.fill([](int i) { return set("small" + number(i), ""); });
  CHECK(full.memory->kept.held() <= kBytesMax);
  CHECK(full.refuses(set("new", "")));
  CHECK(full.refuses(add("new", 1)));
  CHECK(full.refuses({Op::append, {"new"}, {"x"}}));
  CHECK(full.refuses({Op::append, {"text"}, {std::string(2000, 'x')}}));
  CHECK(full.refuses({Op::compare_set, {"new"}, {"", "x"}}));
  CHECK(full.refuses({Op::multi_set, {"new", "text"}, {"x", "x"}}));
  CHECK(full.refuses(push("queue", "x")));
  CHECK(full.refuses({Op::barrier, {"new"}, {}, 2}));
  CHECK(full.refuses(set("text", std::string(20'000, 'x'))));
}

TEST_CASE("a full store does all that does not make it grow, and goes on when there is room again", "[store_memory]") {
  Full full;
  full.store.on(1, add("counter", 1));
  full.store.on(1, set("text", std::string(1000, 'x')));
  full.fill([](int i) { return set("k" + number(i), ""); });
  CHECK_FALSE(full.refuses(add("counter", 1)));
  CHECK_FALSE(full.refuses(set("text", std::string(900, 'y'))));
  CHECK_FALSE(full.refuses(get("text")));
  CHECK_FALSE(full.refuses({Op::wait, {"absent"}}));
  CHECK_FALSE(full.refuses({Op::num_keys}));
  CHECK_FALSE(full.refuses({Op::queue_pop, {"k1"}}));
  for (int i = 0; i < 100; ++i) full.store.on(1, {Op::delete_key, {"k" + number(i)}});
  CHECK_FALSE(full.refuses(set("new", std::string(5'000, 'x'))));
}

TEST_CASE("a queue that nobody empties fills the store, and one that is emptied does not", "[store_memory]") {
  Full full;
  CHECK(full.fill([](int) { return push("queue", std::string(100, 'x')); }) > 3'000);
  CHECK_FALSE(full.refuses({Op::queue_pop, {"queue"}}));
  CHECK_FALSE(full.refuses(push("queue", std::string(100, 'x'))));
  Full emptied;
  for (int i = 0; i < 20'000; ++i) {
    REQUIRE_FALSE(emptied.refuses(push("queue", std::string(100, 'x'))));
    REQUIRE_FALSE(emptied.refuses({Op::queue_pop, {"queue"}}));
  }
}

TEST_CASE("a value that is overwritten counts until it is sent", "[store_memory]") {
  Full full;
  full.store.on(1, set("k", std::string(600'000, 'x')));
  Answers unsent = full.store.on(1, get("k"));
  full.store.on(1, {Op::delete_key, {"k"}});
  CHECK(full.refuses(set("k", std::string(600'000, 'x'))));
  unsent.clear();
  CHECK_FALSE(full.refuses(set("k", std::string(600'000, 'x'))));
}

TEST_CASE("names that are waited for and replies of many small values have a limit, too", "[store_memory]") {
  Full full;
  const auto too_much = CloseConnection::Why::too_much_under_way;
  std::vector<std::string> names;
  for (int i = 0; i < 10'000; ++i) names.push_back("a name of some length " + number(i));
  CHECK(full.refuses({Op::wait, names}, too_much));
  full.store.on(1, set("k", std::string(10'000, 'x')));
  CHECK(full.refuses({Op::multi_get, std::vector<std::string>(1'000, "k")}, too_much));
  CHECK_FALSE(full.refuses({Op::multi_get, std::vector<std::string>(50, "k")}));
  CHECK(full.memory->under_way.held() == 0);
}

TEST_CASE("what a store counted is gone when all is deleted, popped and forgotten", "[store_memory]") {
  const auto memory = std::make_shared<StoreMemory>();
  Store store(memory);
  RandomRequests requests(7);
  for (int i = 0; i < 20'000; ++i) store.on(static_cast<ClientId>(i % 5), requests.next());
  CHECK(memory->kept.held() > 0);
  for (ClientId client = 0; client < 5; ++client) store.forget(client);
  CHECK(memory->under_way.held() == 0);
  for (const Answer& answer : store.on(1, {Op::list_keys}))
    for (const Value& key : std::get<Values>(answer.reply).values) store.on(1, {Op::delete_key, {*key}});
  for (const char* key : {"a", "b", "c", "d"})  // as they are called there
    while (std::get<Number>(store.on(1, {Op::queue_len, {key}}).front().reply).value > 0)
      store.on(1, {Op::queue_pop, {key}});
  CHECK(memory->kept.held() == 0);
}

namespace {

// It may be closed in the middle.
void send_some(RawPeer& peer, std::string_view bytes) {
  try {
    peer.send(bytes);
  } catch (const std::exception&) {
  }
}

}  // namespace

TEST_CASE("who fills the store is closed, told of once, and others are served", "[store_memory]") {
  Told told;
  const Server server({.limits = {.memory_bytes_max = kBytesMax}, .log = told.hook()});
  RawPeer other(server.port());
  other.greet().send(add("n", 1)).receive_number();
  for (int i = 0; i < 3; ++i) {
    RawPeer greedy(server.port());
    greedy.greet();
    for (int k = 0; k < 2; ++k) send_some(greedy, encode(push("queue", std::string(600'000, 'x'))));
    CHECK(greedy.closed_within(kSoon));
  }
  CHECK(other.send(add("n", 1)).receive_number() == 2);
  REQUIRE(told.all().size() == 1);
  CHECK(told.all().front() == "refused a client: keys and queues use all the memory they may, 1 MiB (--store-memory)");
}

TEST_CASE("requests that never end take no more memory than they may", "[store_memory]") {
  Told told;
  const Server server({.limits = {.memory_bytes_max = kBytesMax}, .log = told.hook()});
  const std::string request = encode(set("k", std::string(8 << 20, 'x')));
  std::vector<RawPeer> greedy;
  for (int i = 0; i < 4; ++i) greedy.emplace_back(server.port());
  for (RawPeer& peer : greedy) peer.greet().send(std::string_view(request).substr(0, 200'000));
  CHECK(greedy.front().silent_for(50ms));
  send_some(greedy.front(), std::string_view(request).substr(200'000, 700'000));
  CHECK(greedy.front().closed_within(kSoon));
  RawPeer other(server.port());
  CHECK(other.greet().send(add("n", 1)).receive_number() == 1);
  REQUIRE(told.all().size() == 1);
  CHECK_THAT(told.all().front(), StartsWith("refused a client: requests and replies in flight use all the memory"));
}

TEST_CASE("replies that nobody reads take no more memory than they may", "[store_memory][not-tsan]") {
  Told told;
  const Server server({.limits = {.memory_bytes_max = kBytesMax}, .log = told.hook()});
  RawPeer other(server.port());
  other.greet().send(set("k", std::string(10'000, 'x'))).send(add("n", 1)).receive_number();
  const Request many{Op::multi_get, std::vector<std::string>(60, "k")};
  std::vector<RawPeer> deaf;
  for (int i = 0; i < 20; ++i) {
    deaf.emplace_back(server.port());
    deaf.back().receive_buffer(4096);
    deaf.back().greet();
    for (int k = 0; k < 20; ++k) send_some(deaf.back(), encode(many));
  }
  REQUIRE(told.something_within(kSoon));  // nobody may read before: a client that reads is served
  CHECK_THAT(told.all().front(), StartsWith("refused a client: requests and replies in flight use all the memory"));
  CHECK(other.send(add("n", 1)).receive_number() == 2);
}
