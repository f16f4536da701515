#include "rendezvous/store/client.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "rendezvous/peer/listen_socket.h"
#include "rendezvous/store/server.h"
#include "tests/support/caller.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"

namespace {

constexpr auto kOwnLimit = 10s;  // of a client's calls that name none: what is to end sooner ends before it

Client::Options at(std::uint16_t port, Duration timeout = kOwnLimit) {
  return {.host = "127.0.0.1", .port = port, .timeout = timeout};
}

std::chrono::milliseconds time_of(const std::function<void()>& action) {
  const auto start = Clock::now();
  action();
  return std::chrono::round<std::chrono::milliseconds>(Clock::now() - start);
}

// Joins its threads whatever happens.
class Threads {
 public:
  template <class F>
  void run(F body) {
    threads_.emplace_back(std::move(body));
  }
  ~Threads() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::vector<std::thread> threads_;
};

// A "store" that takes one connection, greets as it should, and then says `words` to whatever comes.
class Impostor {
 public:
  explicit Impostor(std::string words) : listening_(open_listener("127.0.0.1", 0)) {
    thread_ = std::thread([this, words = std::move(words)] { talk(words); });
  }
  ~Impostor() {
    over_ = true;
    thread_.join();
    close(listening_.fd);
  }
  std::uint16_t port() const { return listening_.port; }

 private:
  void talk(const std::string& words) {
    int fd = -1;
    char bytes[4096];
    while (!over_ && (fd = accept4(listening_.fd, nullptr, nullptr, SOCK_CLOEXEC)) < 0) std::this_thread::yield();
    if (fd < 0) return;
    recv(fd, bytes, 10, MSG_WAITALL);
    send(fd, bytes + 6, 4, MSG_NOSIGNAL);
    recv(fd, bytes, sizeof bytes, 0);
    send(fd, words.data(), words.size(), MSG_NOSIGNAL);
    while (!over_ && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) != 0) std::this_thread::yield();
    close(fd);
  }

  Listening listening_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

// Accepted by the kernel, never answered.
class Hanging {
 public:
  Hanging() : listening_(open_listener("127.0.0.1", 0)) {}
  ~Hanging() { close(listening_.fd); }
  std::uint16_t port() const { return listening_.port; }

 private:
  Listening listening_;
};

}  // namespace

TEST_CASE("a client does with the store all that the protocol has", "[client]") {
  const Server server({});
  Client client(at(server.port()));
  client.set("k", "v");
  CHECK(client.get("k") == "v");
  CHECK(client.add("n", 5) == 5);
  CHECK(client.add("n", -7) == -2);
  client.append("k", std::string("\0w", 2));
  CHECK(client.get("k") == std::string("v\0w", 3));
  CHECK(client.compare_set("c", "", "1") == "1");
  CHECK(client.compare_set("c", "2", "3") == "1");
  client.multi_set({"a", "b"}, {"1", ""});
  CHECK(client.multi_get({"b", "a", "a"}) == std::vector<std::string>{"", "1", "1"});
  CHECK(client.multi_get({}).empty());
  CHECK(client.check({"a", "b"}));
  CHECK_FALSE(client.check({"a", "z"}));
  CHECK(client.num_keys() == 5);
  const auto keys = client.list_keys();
  CHECK(std::set<std::string>(keys.begin(), keys.end()) == std::set<std::string>{"a", "b", "c", "k", "n"});
  CHECK(client.delete_key("a"));
  CHECK_FALSE(client.delete_key("a"));
  client.queue_push("q", "1");
  client.queue_push("q", "2");
  CHECK(client.queue_len("q") == 2);
  CHECK(client.queue_pop("q") == "1");
  CHECK(client.queue_try_pop("q") == "2");
  CHECK_FALSE(client.queue_try_pop("q"));
  client.barrier("alone", 1);
  client.ping();
}

TEST_CASE("values of the largest size, and larger ones made by appending, come back whole", "[client]") {
  const Server server({});
  Client client(at(server.port()));
  const std::string largest(kValueBytesMax, 'x');
  client.set("k", largest);
  client.append("k", "and more");
  CHECK((client.get("k") == largest + "and more"));
  CHECK((client.compare_set("k", largest, largest) == largest + "and more"));
}

TEST_CASE("a name, an IPv4 and an IPv6 address all lead to the store", "[client]") {
  const Server server({});
  for (const char* host : {"localhost", "127.0.0.1", "::ffff:127.0.0.1"})
    CHECK(Client({.host = host, .port = server.port(), .timeout = 5s}).num_keys() == 0);
}

TEST_CASE("a wait in vain says for what, where and how long, and leaves the client usable", "[client]") {
  const Server server({});
  Client client(at(server.port()));
  const std::string place = "127.0.0.1:" + std::to_string(server.port());
  CHECK_THROWS_WITH(client.get("lost", 30ms),
                    Contains("store at " + place + ": cannot get '/lost': not there after ") && Contains(" ms."));
  CHECK_THROWS_WITH(client.wait({"a", "b", "c", "d", "e"}, 5ms), Contains("wait for '/a', '/b', '/c' and 2 more"));
  CHECK_THROWS_AS(client.multi_get({"lost"}, 5ms), TimeoutError);
  CHECK_THROWS_AS(client.queue_pop("lost", 5ms), TimeoutError);
  CHECK_THROWS_AS(client.barrier("lost", 2, 5ms), TimeoutError);
  CHECK(client.add("n", 1) == 1);
}

TEST_CASE("a wait lasts as long as it may, and no longer", "[client]") {
  const Server server({});
  Client client(at(server.port()));
  const auto waited = time_of([&] { CHECK_THROWS_AS(client.wait({"lost"}, 120ms), TimeoutError); });
  CHECK(waited >= 120ms);
  CHECK(waited < kOwnLimit);
}

TEST_CASE("a wait of zero asks once", "[client]") {
  const Server server({});
  Client client(at(server.port()));
  client.set("k", "v");
  for (int i = 0; i < 50; ++i) {
    CHECK_NOTHROW(client.wait({"k"}, 0ms));
    CHECK(client.get("k", 0ms) == "v");
    CHECK_THROWS_AS(client.wait({"lost"}, 0ms), TimeoutError);
  }
}

TEST_CASE("a wake-up that crosses the cancellation upsets nothing", "[client]") {
  const Server server({});
  Client waiting(at(server.port())), setting(at(server.port()));
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    const std::string key = std::to_string(i);
    Threads threads;
    const auto moment = Clock::now() + std::chrono::microseconds(1500 + random() % 1000);
    threads.run([&] {
      while (Clock::now() < moment) continue;
      setting.set(key, "v");
    });
    try {
      waiting.wait({key}, 2ms);
    } catch (const TimeoutError&) {
    }
    REQUIRE(waiting.add("n", 1) == i + 1);
    REQUIRE(waiting.get(key) == "v");
  }
}

TEST_CASE("a client that is there before the store finds it once it is", "[client]") {
  const std::uint16_t port = free_port();
  Caller early([&] { Client(at(port, 60s)).set("k", "v"); });
  CHECK(early.sleeps());  // it has tried, and will again
  const Server server({{}, port});
  CHECK_NOTHROW(early.finish());
  CHECK(Client(at(port)).get("k") == "v");
}

TEST_CASE("where nobody listens, or nobody is, a client says so in time", "[client]") {
  const std::uint16_t port = free_port();
  const auto waited = time_of([&] {
    CHECK_THROWS_WITH(Client(at(port, 150ms)),
                      Contains(":" + std::to_string(port) + ": cannot connect: Connection refused"));
  });
  CHECK(waited < kOwnLimit);
  CHECK(time_of([&] {
          CHECK_THROWS_AS(Client({.host = "no-such-host.invalid", .port = port, .timeout = 150ms}), TimeoutError);
        }) < kOwnLimit);
}

TEST_CASE("a store that hangs costs a client its time and no more", "[client]") {
  const Hanging store;
  const auto waited = time_of([&] { CHECK_THROWS_AS(Client(at(store.port(), 100ms)), TimeoutError); });
  CHECK(waited >= 100ms);
  CHECK(waited < kOwnLimit);
}

namespace {

// A client of a store that says `words` to whatever comes.
struct Misled {
  explicit Misled(std::string words) : store(std::move(words)), client(at(store.port(), 3s)) {}
  Impostor store;
  Client client;
};

}  // namespace

TEST_CASE("no answer, half an answer or nonsense ends in an error, not in a wait for ever", "[client]") {
  const std::string huge(8, '\x7f'), half = std::string("\x05\0\0\0\0\0\0\0", 8) + "abc", wrong = "\x05\x05\x05";
  CHECK_THROWS_AS(Misled("").client.num_keys(50ms), TimeoutError);
  CHECK_THROWS_WITH(Misled(huge).client.compare_set("k", "", "v"), Contains("makes no sense"));
  CHECK_THROWS_AS(Misled(half).client.compare_set("k", "", "v", 50ms), TimeoutError);
  CHECK_THROWS_WITH(Misled(wrong).client.wait({"k"}), Contains("an unexpected answer"));
}

TEST_CASE("a get that finds no key after its wait waits again", "[client]") {
  const std::string woken(1, '\0'), nothing(8, '\0'), not_there = "\1", value("\1\0\0\0\0\0\0\0v", 9);
  CHECK(Misled(woken + nothing + not_there + woken + value).client.get("k") == "v");
  CHECK(Misled(woken + value + nothing + not_there + woken + value + value).client.multi_get({"k", "l"}) ==
        std::vector<std::string>{"v", "v"});
}

TEST_CASE("what the store would refuse is not sent", "[client]") {
  const Server server({});
  Client client(at(server.port()));
  CHECK_THROWS_WITH(client.set(std::string(kKeyBytesMax, 'k'), "v"), Contains("a key of 8193 bytes"));
  CHECK_THROWS_WITH(client.set("k", std::string(kValueBytesMax + 1, 'v')), Contains("a value of 8388609 bytes"));
  CHECK_THROWS_WITH(client.check(Client::Keys(kCountMax + 1)), Contains("131073 keys"));
  CHECK_THROWS_WITH(client.multi_set({"a", "b"}, {"1"}), Contains("1 values for 2 keys"));
  CHECK_NOTHROW(client.set(std::string(kKeyBytesMax - 1, 'k'), "v"));
  CHECK(client.num_keys() == 1);
}

TEST_CASE("after a lost connection an error is thrown, and the next call connects anew", "[client]") {
  std::optional<Server> server(std::in_place, Server::Options{});
  const std::uint16_t port = server->port();
  Client client({.host = "127.0.0.1", .port = port, .timeout = 10s, .count_me = true});
  server.reset();
  server.emplace(Server::Options{{}, port});
  CHECK_THROWS_AS(client.num_keys(), Error);
  CHECK(client.num_keys() == 0);  // and it was counted in init/ once
}

TEST_CASE("clients are counted only where they ask for it", "[client]") {
  const Server server({});
  Client quiet(at(server.port()));
  CHECK(quiet.num_keys() == 0);
  for (int i = 0; i < 3; ++i) Client({.host = "127.0.0.1", .port = server.port(), .timeout = 10s, .count_me = true});
  CHECK(quiet.num_keys() == 1);
  CHECK(quiet.list_keys().empty());
}

TEST_CASE("what is pushed is popped once, by whoever is there", "[client]") {
  const Server server({});
  constexpr int kEach = 100, kClients = 4;
  std::atomic<int> sum = 0;
  {
    Threads threads;
    for (int i = 0; i < kClients; ++i) {
      threads.run([&] {
        Client client(at(server.port()));
        for (int n = 1; n <= kEach; ++n) client.queue_push("q", std::to_string(n));
      });
      threads.run([&] {
        Client client(at(server.port()));
        for (int n = 1; n <= kEach; ++n) sum += std::stoi(client.queue_pop("q"));
      });
    }
  }
  CHECK(sum == kClients * kEach * (kEach + 1) / 2);
  CHECK(Client(at(server.port())).queue_len("q") == 0);
}

TEST_CASE("threads may share a client, and none waits for its turn beyond its limit", "[client]") {
  const Server server({});
  Client client(at(server.port()));
  {
    Threads threads;
    for (int i = 0; i < 4; ++i)
      threads.run([&] {
        for (int n = 0; n < 100; ++n) client.add("n", 1);
      });
  }
  CHECK(client.add("n", 0) == 400);
  Client other(at(server.port()));
  Caller holding([&] { client.get("late", 60s); });
  CHECK(holding.sleeps());
  CHECK(other.add("n", 1) == 401);
  CHECK_THROWS_WITH(client.ping(0ms), Contains("other calls held"));
  CHECK_THROWS_WITH(client.ping(20ms), Contains("other calls held"));
  other.set("late", "");
  CHECK_NOTHROW(holding.finish());
}
