#include "rendezvous/store/server.h"

#include <sys/resource.h>

#include <ctime>

#include "rendezvous/base/error.h"
#include "tests/rendezvous/store/raw_peer.h"
#include "tests/support/sanitized.h"
#include "tests/support/test.h"

namespace {

constexpr auto kSoon = 5s;  // a limit, not a wait

bool serves(std::uint16_t port) {
  return test::serves(port, 20s);
}  // none of a store's limits for slow clients is as short

long peak_memory_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// A store in a process of its own: its descriptors and its memory are no one else's.
class StoreProcess {
 public:
  std::uint16_t port() const { return port_; }
  long resident_bytes() const {
    std::istringstream in(read_file("/proc/" + std::to_string(command_.pid()) + "/statm"));
    long all = 0, resident = 0;
    in >> all >> resident;
    return resident * sysconf(_SC_PAGESIZE);
  }

 private:
  Command command_{{programs_folder() + "/store_main"}, {.terminal = true}};  // a stdin that does not end
  std::uint16_t port_ = static_cast<std::uint16_t>(std::stoul(command_.wait_for_output("([0-9]+)\\s", 10s).at(1)));
};

// Raises this process's limit, and that of those it starts. False, with a word about it, where it may not.
bool descriptors_for(std::size_t count) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < count) {
    WARN("skipped: needs " << count << " descriptors, and the hard limit is " << limit.rlim_max << " (ulimit -Hn)");
    return false;
  }
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, count);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace

TEST_CASE("the store counts its requests by operation, and its clients", "[server]") {
  Server server({.address = "127.0.0.1"});
  {
    RawPeer one(server.port()), two(server.port());
    one.greet().send(add("a", 1)).receive_number();
    two.greet().send(add("a", 1)).receive_number();
    two.send(add("a", 1)).receive_number();
    const auto counts = server.counts();
    CHECK(counts.requests[static_cast<std::size_t>(Op::add)] == 3);
    CHECK(counts.requests[static_cast<std::size_t>(Op::get)] == 0);
    CHECK(eventually([&] { return server.counts().connections == 2; }, kSoon));
  }
  CHECK(eventually([&] { return server.counts().connections == 0; }, kSoon));
  CHECK(std::string(kOpNames[static_cast<std::size_t>(Op::barrier)]) == "barrier");
}

TEST_CASE("a store without an address is reached over IPv4 and IPv6", "[server]") {
  const Server server({});
  CHECK(server.port() != 0);
  CHECK(RawPeer(server.port(), "127.0.0.1").greet().send({Op::num_keys}).receive_number() == 0);
  if (fs::exists("/proc/net/if_inet6") && !read_file("/proc/net/if_inet6").empty())
    CHECK(RawPeer(server.port(), "::1").greet().send({Op::num_keys}).receive_number() == 0);
}

TEST_CASE("a store with an address is reached there and nowhere else", "[server]") {
  const Server server({.address = "127.0.0.1"});
  CHECK(serves(server.port()));
  CHECK_THROWS(RawPeer(server.port(), "127.0.0.2"));
}

TEST_CASE("a taken port is named, with a way out", "[server]") {
  const Server first({});
  const std::string port = std::to_string(first.port());
  for (const char* address : {"", "127.0.0.1"})
    CHECK_THROWS_WITH(Server({address, first.port()}),
                      Contains(port + ": Address already in use. Pass another --master-port, or 0 for any free one."));
}

TEST_CASE("only numeric addresses of this machine will do, and no name is looked up", "[server]") {
  CHECK_THROWS_AS(Server({.address = "localhost"}), Error);
  CHECK_THROWS_AS(Server({.address = "192.0.2.1"}), Error);
}

TEST_CASE("the first bytes may come one at a time", "[server]") {
  const Server server({});
  RawPeer peer(server.port());
  for (const char byte : encode({Op::validate, {}, {}, kMagic}) + encode({Op::num_keys})) peer.send({&byte, 1});
  CHECK(peer.receive_number() == 0);
}

TEST_CASE("half a request stalls nobody and is not applied", "[server]") {
  const Server server({});
  RawPeer half(server.port()), other(server.port());
  const std::string whole = encode(set("k", std::string(1000, 'x')));
  half.greet().send(whole.substr(0, whole.size() / 2));
  CHECK(serves(server.port()));
  CHECK(other.greet().send(get("k")).receive_value().empty());
  half.send(whole.substr(whole.size() / 2)).send(get("k"));
  CHECK(half.receive_value().size() == 1000);
}

TEST_CASE("garbage is hung up on at once, and harms nobody", "[server]") {
  const Server server({});
  RawPeer bystander(server.port());
  bystander.greet();
  for (const std::string& garbage : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01\x02\x00", 5),
                                     encode({Op::validate, {}, {}, kMagic ^ 1}), std::string(1 << 20, '\xff')}) {
    RawPeer stranger(server.port());
    try {
      stranger.send(garbage);
    } catch (const std::system_error&) {  // it was faster than we
    }
    CHECK(stranger.closed_within(kSoon));
  }
  std::int64_t before = 0;
  for (const std::string& garbage : {std::string(1, '\x7f'), encode({Op::validate, {}, {}, kMagic}),
                                     std::string(1, '\x03') + std::string(8, '\xff')}) {
    RawPeer client(server.port());
    client.greet().send(encode(add("m", 1)) + garbage);
    CHECK(client.receive_number() == ++before);  // what came before the garbage is answered
    CHECK(client.closed_within(kSoon));
  }
  CHECK(bystander.send(add("n", 1)).receive_number() == 1);
}

TEST_CASE("who says nothing is dropped after a while", "[server][waits]") {
  const Server server({.limits = {.validate_within = 2s}});
  RawPeer talking(server.port());
  talking.greet();
  RawPeer listening(server.port()), silent(server.port()), slow(server.port());
  listening.send({Op::validate, {}, {}, kMagic}).send(set("k", "v"));  // neither is answered
  slow.send(std::string(1, '\0'));
  CHECK(silent.closed_within(kSoon));
  CHECK(slow.closed_within(kSoon));
  CHECK(talking.send(add("n", 1)).receive_number() == 1);
  CHECK(listening.send(get("k")).receive_value() == "v");
}

TEST_CASE("the silent cannot take the place of those who talk", "[server]") {
  const Server server({.limits = {.unvalidated_max = 4}});
  RawPeer talking(server.port());
  talking.greet();
  std::vector<RawPeer> silent;
  for (int i = 0; i < 20; ++i) silent.emplace_back(server.port());
  CHECK(serves(server.port()));
  CHECK(silent.front().closed_within(kSoon));
  CHECK(talking.send(add("n", 1)).receive_number() == 1);
}

TEST_CASE("a source whose unauthenticated peers talk nonsense over and over is shut out, and others are not",
          "[server]") {
  // As if they were elsewhere: whose processes on this machine are, the kernel tells.
  const Server server({.address = GENERATE("", "127.0.0.1"), .own_user_only = false});
  RawPeer before(server.port());
  before.greet();
  const auto nonsense_takes = [&] {
    const auto start = std::chrono::steady_clock::now();
    RawPeer nonsense(server.port(), "127.0.0.1", "127.0.0.2");
    nonsense.send("\xff\xff\xff\xff\xff");
    REQUIRE(nonsense.closed_within(kSoon));
    return std::chrono::steady_clock::now() - start;
  };
  bool shut_out = false;
  for (int i = 0; i < 1000 && !shut_out; ++i) shut_out = nonsense_takes() > 500ms;  // the kernel asks again after 1 s
  CHECK(shut_out);
  CHECK(serves(server.port()));
  CHECK(before.send(add("n", 1)).receive_number() == 1);
}

TEST_CASE("a process of our own that talks nonsense, or leaves without a word, shuts out nobody on this machine",
          "[server]") {
  const Server server({});
  for (int i = 0; i < 600; ++i) {
    RawPeer nonsense(server.port());
    nonsense.send("\xff\xff\xff\xff\xff");
    REQUIRE(nonsense.closed_within(kSoon));
  }
  CHECK(serves(server.port()));
  for (int i = 0; i < 600; ++i) RawPeer(server.port());
  CHECK(serves(server.port()));
  for (int i = 0; i < 600; ++i) RawPeer(server.port()).reset();
  CHECK(serves(server.port()));
}

TEST_CASE("one client too many is turned away at once, and let in when another goes", "[server]") {
  const Server server({.limits = {.connections_max = 2}});
  RawPeer first(server.port());
  first.greet();
  {
    RawPeer second(server.port()), third(server.port());
    second.greet();
    CHECK(third.closed_within(kSoon));
  }
  CHECK(eventually(
      [&] {
        try {
          return serves(server.port());
        } catch (const std::exception&) {
          return false;
        }
      },
      kSoon));
}

TEST_CASE("a client is read no faster than it reads", "[server][release-only]") {
  const Server server({.limits = {.output_bytes_pause = 64 << 10}});
  const long before = peak_memory_kib();
  RawPeer flooding(server.port());
  flooding.greet();
  const std::string key(100, 'k'), list = encode({Op::list_keys});
  for (int i = 0; i < 100; ++i) flooding.send(set(key + std::to_string(i), ""));
  // 10 KiB of reply for each byte: unbounded, a few MiB of these would be tens of GiB.
  const std::size_t sent = flooding.send_until_stuck(std::string(64 << 10, list[0]), 300ms);
  CHECK(sent < 64u << 20);
  CHECK(serves(server.port()));
  CHECK(peak_memory_kib() - before < 256 * 1024);
  for (int i = 0; i < 200; ++i) {  // and when it reads, all is there, in order
    REQUIRE(flooding.receive_number() == 100);
    for (int k = 0; k < 100; ++k) REQUIRE(flooding.receive_value().starts_with(key));
  }
}

TEST_CASE("a client that asks for much before it reads gets all of it", "[server]") {
  const Server server({.limits = {.output_bytes_pause = 4096}});
  RawPeer peer(server.port());
  peer.greet().send(set("k", std::string(100'000, 'v')));
  std::string requests;
  for (int i = 0; i < 300; ++i) requests += encode(get("k")) + encode(add("n", 1));
  peer.send(requests);
  for (int i = 1; i <= 300; ++i) {
    REQUIRE(peer.receive_value().size() == 100'000);
    REQUIRE(peer.receive_number() == i);
  }
}

TEST_CASE("a client that was deaf for a while and then heard all is no deaf one", "[server][not-tsan][waits]") {
  const Server server({.limits = {.write_stall_max = 2s}});
  RawPeer peer(server.port());
  peer.greet().send(set("large", std::string(8 << 20, 'z'))).send(add("n", 1)).receive_number();
  for (int i = 0; i < 12; ++i) peer.send(get("large"));
  CHECK(serves(server.port()));
  for (int i = 0; i < 12; ++i) REQUIRE(peer.receive_value().size() == 8 << 20);
  CHECK(peer.silent_for(2500ms));
  CHECK(peer.send(add("n", 1)).receive_number() == 2);
}

TEST_CASE("a client that broke the protocol waits for nothing, also while its replies are still going out",
          "[server]") {
  const Server server({.limits = {.output_bytes_pause = 1 << 30}});
  RawPeer broken(server.port()), second(server.port()), pushing(server.port());
  broken.greet().send(set("large", std::string(8 << 20, 'z'))).send(add("n", 1)).receive_number();
  for (int i = 0; i < 32; ++i) broken.send(get("large"));
  broken.send({Op::wait, {"q"}}).send("\x7f");
  CHECK(serves(server.port()));  // so the above has been taken
  second.greet().send({Op::wait, {"q"}}).send(add("n", 1)).receive_number();
  pushing.greet().send({Op::queue_push, {"q"}, {"x"}});
  CHECK(second.receive(1) == std::string(1, '\0'));
}

TEST_CASE("a client that has said all it will say still gets its replies", "[server]") {
  const Server server({.limits = {.output_bytes_pause = 4096}});
  RawPeer peer(server.port());
  peer.greet().send(set("k", std::string(1 << 20, 'v')));
  for (int i = 0; i < 10; ++i) peer.send(get("k"));
  peer.end_input();
  for (int i = 0; i < 10; ++i) REQUIRE(peer.receive_value().size() == 1 << 20);
  CHECK(peer.closed_within(kSoon));
}

TEST_CASE("a client that is reset while its replies wait is dropped at once, and burns no core", "[server]") {
  const Server server({.limits = {.output_bytes_pause = 4096}});
  const std::size_t without = open_fds().size();
  RawPeer peer(server.port());
  peer.greet().send(set("large", std::string(8 << 20, 'z')));
  peer.send_until_stuck(encode(get("large")), 50ms);
  peer.reset();
  CHECK(eventually([&] { return open_fds().size() <= without; }, kSoon));
  const auto cpu_before = process_cpu_time();
  std::this_thread::sleep_for(100ms);
  CHECK(process_cpu_time() - cpu_before < 50ms);
  CHECK(serves(server.port()));
}

TEST_CASE("thousands of clients are held at once, and each is still answered", "[server]") {
  const std::size_t count = kSanitized ? 2'000 : 10'000;
  if (!descriptors_for(count + 100)) return;
  StoreProcess store;
  std::vector<RawPeer> peers;
  for (std::size_t i = 0; i < count; ++i) peers.emplace_back(store.port()).greet();
  for (RawPeer& peer : peers) peer.send(add("n", 1));
  std::int64_t last = 0;
  for (RawPeer& peer : peers) last = std::max(last, peer.receive_number());
  CHECK(last == static_cast<std::int64_t>(count));
}

TEST_CASE("an idle client costs the store at most 2 KiB", "[server][release-only]") {
  constexpr std::size_t kClients = 4'000;
  if (!descriptors_for(kClients + 100)) return;
  StoreProcess store;
  std::vector<RawPeer> peers;
  for (std::size_t i = 0; i < 100; ++i) peers.emplace_back(store.port()).greet();  // what is allocated once
  const long before = store.resident_bytes();
  for (std::size_t i = 0; i < kClients; ++i) peers.emplace_back(store.port()).greet();
  CHECK((store.resident_bytes() - before) / static_cast<long>(kClients) <= 2048);
}

TEST_CASE("connections that come and go leave no descriptor behind", "[server]") {
  const Server server({});
  const auto before = open_fds();
  for (int i = 0; i < 300; ++i) {
    RawPeer peer(server.port());
    if (i % 3 == 0) peer.greet().send({Op::wait, {"never"}});
    if (i % 3 == 1) peer.send("garbage");
    if (i % 2 == 0) peer.reset();
  }
  CHECK(eventually([&] { return open_fds() == before; }, kSoon));
  CHECK(serves(server.port()));
}

TEST_CASE("out of descriptors the store waits for better times without burning a core", "[server]") {
  const Server server({});
  RawPeer early(server.port());
  early.greet();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit tight{static_cast<rlim_t>(*open_fds().rbegin() + 11), before.rlim_max};
  try {  // UBSan opens a descriptor when it meets a type for the first time: let it meet this one while there are some
    RawPeer nobody(1);
  } catch (const std::system_error&) {
  }
  setrlimit(RLIMIT_NOFILE, &tight);
  std::vector<RawPeer> peers;
  try {  // each takes two descriptors; in the end one waits that has only ours
    for (;;) peers.emplace_back(server.port());
  } catch (const std::system_error&) {
  }
  const auto cpu_before = process_cpu_time();
  std::int64_t answered = 0;
  for (int i = 0; i < 100 && early.silent_for(5ms); ++i) answered = early.send(add("n", 1)).receive_number();
  const auto cpu = process_cpu_time() - cpu_before;
  setrlimit(RLIMIT_NOFILE, &before);  // before any CHECK: UBSan needs descriptors, too
  CHECK(answered == 100);
  CHECK(cpu < 300ms);
  for (RawPeer& peer : peers) peer.greet();
  CHECK(serves(server.port()));
}
