// Our client asks PyTorch's servers, of both kinds, all that PyTorch's client asks ours (store_conformance.py), and our
// own server for comparison. Where the three differ, the case says how:
//   - PyTorch's plain server has no queues; neither of PyTorch's has BARRIER: both close the connection instead
//   - a compare_set that creates a key wakes nobody on the plain one; one that stores nothing wakes all on libuv's
//   - libuv's forgets to end a wait for a queue that is filled and a key that comes later
//   - libuv's still wakes a client for a queue whose item it has popped, whatever that waits for by then
#include "rendezvous/store/client.h"
#include "rendezvous/store/server.h"
#include "tests/support/caller.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"

namespace {

enum class Kind { ours, libuv, plain };
using Texts = std::vector<std::string>;

constexpr auto kStartLimit = 180s;  // a Python that imports torch
const std::string kAllBytes = [] {
  std::string bytes;
  for (int i = 0; i < 768; ++i) bytes += static_cast<char>(i);
  return bytes;
}();

Texts stock_command(Texts words) {
  words.insert(words.begin(), {venv_python(), "-B", source_folder() + "/tests/conformance/stock_stores.py"});
  return words;
}

std::uint16_t port_of(const std::string& text) { return static_cast<std::uint16_t>(std::stoul(text)); }

class StockStores {
 public:
  StockStores() : command_(stock_command({}), {.env = environment()}) {
    const Texts found = command_.wait_for_output("ports (\\d+) (\\d+)", kStartLimit);
    libuv_ = port_of(found.at(1));
    plain_ = port_of(found.at(2));
  }
  std::uint16_t port(Kind kind) const { return kind == Kind::libuv ? libuv_ : plain_; }
  Command& command() { return command_; }
  // They resolve the names of their clients; a slow resolver would be tested with them.
  static std::map<std::string, std::optional<std::string>> environment() {
    return {{"RES_OPTIONS", "timeout:1 attempts:1"}, {"TORCH_CPP_LOG_LEVEL", "ERROR"}};
  }

 private:
  Command command_;
  std::uint16_t libuv_ = 0, plain_ = 0;
};

StockStores& stock() {
  static StockStores stores;  // for all three runs of a case
  return stores;
}

std::uint16_t port_of(Kind kind) {
  static const Server ours({.address = "127.0.0.1"});
  return kind == Kind::ours ? ours.port() : stock().port(kind);
}

// Says in a failure's message which store it was.
struct Store {
  explicit Store(Kind of) : kind(of), port(port_of(of)) {}
  Client client(Duration timeout = 20s) const {
    return Client({.host = "127.0.0.1", .port = port, .timeout = timeout});
  }
  const char* name() const {
    return kind == Kind::ours    ? "our server"
           : kind == Kind::libuv ? "PyTorch's libuv server"
                                 : "PyTorch's plain server";
  }
  Kind kind;
  std::uint16_t port;
};

// Until the store has taken in what the caller asked, and the caller what the store has answered so far. False: its
// call has ended. A store answers in order, and a get that is woken for nothing asks twice before it waits again.
bool waits(const Caller& caller, Client& other) {
  for (int i = 0; i < 3; ++i) {
    if (!caller.sleeps()) return false;
    other.ping();
  }
  return caller.sleeps();
}

// Whether `act`, of another client, ends a wait for the key; a set does it else.
bool wakes(const Store& store, const std::string& key, const std::function<void(Client&)>& act) {
  Client waiting = store.client(), acting = store.client();
  bool woken = false;
  {
    Caller caller([&] { waiting.wait({key}); });
    CHECK(waits(caller, acting));
    act(acting);
    woken = !waits(caller, acting);
    if (!woken) acting.set(key, "");
    CHECK_NOTHROW(caller.finish());
  }
  CHECK(waiting.add("in step", 0) == 0);
  return woken;
}

#define ON_EACH_STORE()                                              \
  const Store store(GENERATE(Kind::ours, Kind::libuv, Kind::plain)); \
  INFO("on " << store.name())

}  // namespace

TEST_CASE("our client and PyTorch's know each other's keys", "[conformance]") {
  for (const Kind kind : {Kind::libuv, Kind::plain}) {
    Client client = Store(kind).client();
    CHECK(client.get("here") == "PyTorch");
    client.set("ours", kind == Kind::libuv ? "by libuv" : "in plain");
  }
  stock().command().wait_for_output("heard by libuv", 20s);
  stock().command().wait_for_output("heard in plain", 20s);
}

TEST_CASE("PyTorch's rank 0 counts our client among those it waits for", "[conformance]") {
  const std::uint16_t port = free_port();
  Command first(stock_command({"count", std::to_string(port)}), {.env = StockStores::environment()});
  const Client client({.host = "127.0.0.1", .port = port, .timeout = kStartLimit, .count_me = true});
  first.wait_for_output("counted", kStartLimit);
}

TEST_CASE("what our client sets it gets from any store, whatever the bytes", "[conformance]") {
  ON_EACH_STORE();
  Client client = store.client(), other = store.client();
  for (const std::string& value : {std::string("one"), std::string(1, '\0'), std::string("\0\xff\x80\n", 4), kAllBytes,
                                   std::string(1439, '\xff'), std::string(1441, '\0'), std::string()}) {
    client.set("value", value);
    client.ping();  // a set has no answer: now it is done
    CHECK(other.get("value") == value);
  }
  CHECK(client.check({"value"}));  // an empty value is one
  for (const std::string& key :
       {std::string("a\0b", 3), std::string("\xff\xfe"), std::string("\xc3\xa9"), std::string(" \t\r\n"),
        std::string("//"), std::string(), std::string(kKeyBytesMax - 1, 'k')}) {
    client.set(key, "of " + key);
    client.ping();
    CHECK(other.get(key) == "of " + key);
    CHECK(client.delete_key(key));
  }
}

TEST_CASE("our client counts in any store, in decimal text", "[conformance]") {
  ON_EACH_STORE();
  Client client = store.client(), other = store.client();
  CHECK(client.add("n", 5) == 5);
  CHECK(client.add("n", -7) == -2);
  CHECK(client.get("n") == "-2");
  CHECK(client.add("low", std::numeric_limits<std::int64_t>::min()) == std::numeric_limits<std::int64_t>::min());
  client.set("text", "41");
  CHECK(client.add("text", 1) == 42);
  client.set("words", "not a number");
  CHECK_THROWS_AS(client.add("words", 1), Error);  // the store hangs up
  CHECK(other.get("words") == "not a number");
  CHECK(client.add("n", 0) == -2);  // by a new connection
}

TEST_CASE("our client compares and sets in any store", "[conformance]") {
  ON_EACH_STORE();
  Client client = store.client();
  CHECK(client.compare_set("c", "x", "new") == "x");  // nothing there: what was expected comes back ...
  CHECK_FALSE(client.check({"c"}));                   // ... and nothing is stored
  CHECK(client.compare_set("c", "", "first") == "first");
  CHECK(client.compare_set("c", "", "nope") == "first");
  CHECK(client.compare_set("c", "first", kAllBytes) == kAllBytes);
  CHECK(client.compare_set("c", kAllBytes, "") == "");
}

TEST_CASE("our client checks, counts, lists, appends and deletes keys in any store", "[conformance]") {
  ON_EACH_STORE();
  Client client = store.client();
  const std::int64_t before = client.num_keys();
  client.append("d/a", "ab");
  client.append("d/a", std::string("\0\xff", 2));
  client.append("d/a", "");
  CHECK(client.get("d/a") == std::string("ab\0\xff", 4));
  client.append("d/b", "");
  client.compare_set("d/c", "something", "x");
  CHECK(client.num_keys() == before + 2);
  CHECK(client.check({"d/a", "d/b", "d/a"}));
  CHECK(client.check({}));
  CHECK_FALSE(client.check({"d/a", "d/c"}));
  const Texts keys = client.list_keys();
  CHECK(std::ranges::count(keys, "d/a") + std::ranges::count(keys, "d/b") == 2);
  CHECK(std::ranges::count(keys, "d/c") == 0);
  CHECK(client.delete_key("d/a"));
  CHECK_FALSE(client.delete_key("d/a"));
  CHECK_FALSE(client.check({"d/a"}));
  CHECK(client.num_keys() == before + 1);
}

TEST_CASE("our client sets and gets many keys at once in any store", "[conformance]") {
  ON_EACH_STORE();
  Client client = store.client();
  client.multi_set({}, {});
  CHECK(client.multi_get({}).empty());
  client.multi_set({"m/d", "m/d"}, {"first", "last"});
  CHECK(client.multi_get({"m/d", "m/d"}) == Texts{"last", "last"});
  Texts keys, values;
  for (int i = 0; i < 2000; ++i) {
    keys.push_back("many/" + std::to_string(i));
    values.push_back(std::string(static_cast<std::size_t>(i % 300), 'v'));
  }
  client.multi_set(keys, values);
  CHECK((client.multi_get(keys) == values));
  CHECK(client.check(keys));
  client.wait(keys);
}

TEST_CASE("values of 8 MiB, and larger ones made by appending, pass between our client and any store",
          "[conformance]") {
  ON_EACH_STORE();
  Client client = store.client(60s);
  std::string largest(kValueBytesMax, 'x');
  for (std::size_t i = 0; i < largest.size(); i += 997) largest[i] = static_cast<char>(i);
  client.set("large", largest);
  CHECK((client.get("large") == largest));
  CHECK((client.compare_set("large", "x", "y") == largest));
  client.append("large", "and more");
  CHECK((client.multi_get({"large", "large"}) == Texts(2, largest + "and more")));
  client.delete_key("large");
}

TEST_CASE("our client pushes to and pops from the queues of any store that has them", "[conformance]") {
  ON_EACH_STORE();
  Client client = store.client(), other = store.client();
  if (store.kind == Kind::plain) {  // it hangs up, and is as good as before by a new connection
    CHECK_THROWS_AS(client.queue_len("q"), Error);
    CHECK_THROWS_AS(client.queue_try_pop("q"), Error);
    CHECK_FALSE(client.check({"q"}));
    return;
  }
  CHECK(client.queue_len("q") == 0);
  CHECK_FALSE(client.queue_try_pop("q"));
  for (const std::string& item : {std::string("1"), std::string(), kAllBytes}) client.queue_push("q", item);
  CHECK(client.queue_len("q") == 3);
  CHECK(other.check({"q"}));
  CHECK(other.queue_pop("q") == "1");
  CHECK(other.queue_try_pop("q") == "");
  CHECK(other.queue_pop("q") == kAllBytes);
  CHECK_THROWS_AS(client.queue_pop("q", 0ms), TimeoutError);
  CHECK(client.queue_len("q") == 0);
}

TEST_CASE("our client's wait in any store ends by all that makes a key", "[conformance]") {
  ON_EACH_STORE();
  CHECK(wakes(store, "w/set", [](Client& by) { by.set("w/set", ""); }));
  CHECK(wakes(store, "w/add", [](Client& by) { by.add("w/add", 5); }));
  CHECK(wakes(store, "w/append", [](Client& by) { by.append("w/append", "5"); }));
  CHECK(wakes(store, "w/multi", [](Client& by) { by.multi_set({"w/x", "w/multi"}, {"", ""}); }));
  const bool plain = store.kind == Kind::plain;
  CHECK(wakes(store, "w/compare", [](Client& by) { by.compare_set("w/compare", "", "5"); }) == !plain);
  if (!plain) CHECK(wakes(store, "w/push", [](Client& by) { by.queue_push("w/push", "5"); }));
}

TEST_CASE("our client's waits in vain end in time in any store, and nothing is left of them", "[conformance]") {
  ON_EACH_STORE();
  Client client = store.client(), other = store.client();
  const auto start = Clock::now();
  CHECK_THROWS_WITH(client.get("lost", 200ms), Contains("cannot get '/lost': not there after"));
  CHECK(Clock::now() - start >= 200ms);
  CHECK(Clock::now() - start < 5s);
  CHECK_THROWS_AS(client.multi_get({"lost"}, 5ms), TimeoutError);
  CHECK_THROWS_AS(client.wait({"lost"}, 0ms), TimeoutError);
  for (int i = 0; i < 30; ++i) {
    CHECK_THROWS_AS(client.wait({"lost", "lost/" + std::to_string(i)}, 3ms), TimeoutError);
    REQUIRE(client.add("steps", 1) == i + 1);
  }
  other.set("lost", "found");  // wakes nobody: every wait was taken back
  other.ping();
  CHECK(client.add("steps", 1) == 31);
  CHECK(client.get("lost", 0ms) == "found");
  CHECK(client.get("lost", Client::kNoLimit) == "found");
}

TEST_CASE("a key that comes just when our client gives up waiting upsets nothing in any store", "[conformance]") {
  ON_EACH_STORE();
  Client waiting = store.client(), setting = store.client();
  int late = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string key = "race/" + std::to_string(i);
    const auto moment = Clock::now() + 1500us + i * 10us;
    const Caller caller([&] {
      while (Clock::now() < moment) continue;
      setting.set(key, "v");
    });
    try {
      waiting.wait({key}, 2ms);
    } catch (const TimeoutError&) {
      ++late;
    }
    REQUIRE(waiting.add("races", 1) == i + 1);
    REQUIRE(waiting.get(key) == "v");
  }
  INFO(late << " of 100 came too late");
}

// PyTorch's servers have it since 2.15 at the latest, and not in 2.11.
TEST_CASE("a server without BARRIER ends it in an error, and the client goes on", "[conformance]") {
  ON_EACH_STORE();
  Client client = store.client();
  client.ping();
  try {
    client.barrier("b", 1);
  } catch (const std::exception& error) {
    CHECK(store.kind != Kind::ours);
    CHECK_THAT(error.what(), Contains("it closed the connection") || Contains("reset"));
  }
  client.ping();
}

TEST_CASE("where libuv's server wakes a client for nothing, a get goes on waiting", "[conformance]") {
  ON_EACH_STORE();
  Client getting = store.client(), other = store.client();
  std::string got;
  {
    const Caller caller([&] { got = getting.get("spurious"); });
    CHECK(waits(caller, other));
    CHECK(other.compare_set("spurious", "never", "x") == "never");  // stores nothing, and wakes
    CHECK(waits(caller, other));
    other.set("spurious", "the value");
  }
  CHECK(got == "the value");
  if (store.kind == Kind::plain) return;
  {
    std::string popped;
    const Caller caller([&] {
      popped = getting.queue_pop("left behind");
      got = getting.get("after the queue");
    });
    CHECK(waits(caller, other));
    other.queue_push("left behind", "1");
    CHECK(waits(caller, other));
    CHECK(popped == "1");
    other.queue_push("left behind", "2");  // wakes again who has popped before
    CHECK(waits(caller, other));
    other.set("after the queue", "the value");
  }
  CHECK(got == "the value");
}

TEST_CASE("a wait for a filled queue and a key ends when the key comes, but for libuv's server", "[conformance]") {
  const Store store(GENERATE(Kind::ours, Kind::libuv));
  INFO("on " << store.name());
  Client waiting = store.client(), other = store.client();
  other.queue_push("filled", "1");
  other.ping();
  bool ended = false;
  {
    const Caller caller([&] {
      try {
        waiting.wait({"filled", "mixed"}, store.kind == Kind::ours ? 20s : 1s);
        ended = true;
      } catch (const TimeoutError&) {
      }
    });
    CHECK(waits(caller, other));
    other.set("mixed", "");
  }
  CHECK(ended == (store.kind == Kind::ours));
  waiting.wait({"filled", "mixed"});  // both are there now
}
