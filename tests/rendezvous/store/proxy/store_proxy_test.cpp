// Clients of store proxies, beside clients of the store itself.
#include "rendezvous/store/proxy/store_proxy.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "rendezvous/store/client.h"
#include "rendezvous/store/link_protocol.h"
#include "rendezvous/store/proxy/store_opening.h"
#include "rendezvous/store/store.h"
#include "tests/rendezvous/peer/certificates.h"
#include "tests/rendezvous/store/link_streams.h"
#include "tests/rendezvous/store/random_requests.h"
#include "tests/rendezvous/store/raw_peer.h"
#include "tests/support/store_rig.h"
#include "tests/support/test.h"

namespace {

constexpr auto kSoon = 10s;  // a limit, not a wait

bool serves(std::uint16_t port) { return test::serves(port, 5s); }

const std::string kReady(1, '\0');

Token token() { return std::get<Token>(Token::parse("00112233445566778899aabbccddeeff")); }

// A connection that is authenticated already, and its other end.
std::pair<ReleasedPeer, Fd> connected_pair() {
  int ends[2] = {-1, -1};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  ReleasedPeer peer;
  peer.socket = Fd(ends[0]);
  return {std::move(peer), Fd(ends[1])};
}

// Clients that all say VALIDATE and the same request, and whose answers nobody awaits yet.
std::vector<RawPeer> asking(std::uint16_t port, std::size_t count, const Request& request) {
  std::vector<RawPeer> peers;
  for (std::size_t i = 0; i < count; ++i) {
    peers.emplace_back(port);
    peers.back().send(encode({Op::validate, {}, {}, kMagic}) + encode(request));
  }
  return peers;
}

// Does one request after the other at clients of several ports, and knows from a store in memory what each must hear.
class Comparison {
 public:
  Comparison(std::vector<std::uint16_t> ports, std::uint64_t seed) : ports_(std::move(ports)), random_(seed) {
    for (std::size_t i = 0; i < 2 * ports_.size(); ++i) replace(i);
  }
  void step() {
    const std::size_t client = random_.below(peers_.size());
    const bool alive = ask(client, random_.next());
    // Its answer says that what has none, or not yet, is done.
    if (alive) ask(client, {Op::ping, {}, {}, 77});
    for (auto& [id, bytes] : expected_) {
      const std::string received = peers_.at(index_of_.at(id))->receive(bytes.size());
      REQUIRE(received == bytes);
    }
    expected_.clear();
    if (alive) return;
    REQUIRE(peers_[client]->closed_within(kSoon));
    model_.forget(ids_[client]);
    replace(client);
  }
  void expect_silence() {
    for (const auto& peer : peers_) CHECK(peer->silent_for(0ms));
  }

 private:
  void replace(std::size_t client) {
    if (peers_.size() <= client) {
      peers_.resize(client + 1);
      ids_.resize(client + 1);
    }
    peers_[client] = std::make_unique<RawPeer>(ports_[client % ports_.size()]);
    peers_[client]->greet();
    ids_[client] = ++last_id_;
    index_of_[last_id_] = client;
  }
  bool ask(std::size_t client, const Request& request) {
    peers_[client]->send(request);
    bool alive = true;
    for (const Answer& answer : model_.on(ids_[client], request))
      if (std::holds_alternative<CloseConnection>(answer.reply))
        alive = false;
      else
        expected_[answer.to] += bytes_of(answer.reply);
    return alive;
  }

  const std::vector<std::uint16_t> ports_;
  RandomRequests random_;
  Store model_;
  std::vector<std::unique_ptr<RawPeer>> peers_;
  std::vector<ClientId> ids_;
  std::map<ClientId, std::size_t> index_of_;
  std::map<ClientId, std::string> expected_;
  ClientId last_id_ = 0;
};

}  // namespace

TEST_CASE("clients of proxies and of the store hear the same bytes: plain, by token, by certificates",
          "[store_proxy]") {
  const NodeFiles files;
  std::uint64_t seed = 1;
  for (const Credentials& credentials : {Credentials{}, Credentials{token()}, files.credentials()}) {
    StoreRig rig({.credentials = credentials, .proxies = 2});
    INFO("seed " << seed);
    Comparison comparison({rig.proxy(0).port(), rig.proxy(1).port(), rig.store().port()}, seed++);
    for (int i = 0; i < 1500; ++i) comparison.step();
    comparison.expect_silence();
  }
}

TEST_CASE("many clients of proxies at once lose no count", "[store_proxy]") {
  StoreRig rig({.proxies = 2});
  constexpr int kClients = 8, kRounds = 100;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int c = 0; c < kClients; ++c)
    threads.emplace_back([&, c] {
      try {
        Client client({"127.0.0.1", rig.proxy(static_cast<std::size_t>(c % 2)).port()});
        for (int round = 0; round < kRounds; ++round) {
          const std::string key = "round" + std::to_string(round), own = key + "/" + std::to_string(c);
          client.set(own, own);
          if (client.add(key, 1) == kClients) client.set(key + "/go", "1");
          client.wait({key + "/go"});
          for (int other = 0; other < kClients; ++other) {
            const std::string theirs = key + "/" + std::to_string(other);
            wrong += client.get(theirs) != theirs;
          }
          wrong += client.add(key, 0) != kClients;
        }
      } catch (const std::exception&) {
        ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  const auto counts = rig.store().link_counts();
  CHECK(counts.links == 2);
  CHECK(counts.requests <= counts.requesters);
}

TEST_CASE("through a proxy replies come in the order of the requests, however these are cut", "[store_proxy]") {
  StoreRig rig;
  RawPeer peer(rig.proxy().port());
  peer.greet();
  std::string requests;
  for (int i = 0; i < 500; ++i)
    requests += encode(set("k", std::to_string(i))) + encode(add("n", 1)) + encode(get("k"));
  peer.send(requests);
  for (int i = 0; i < 500; ++i) {
    REQUIRE(peer.receive_number() == i + 1);
    REQUIRE(peer.receive_value() == std::to_string(i));
  }
  for (const char byte : encode(set("k", "v")) + encode(get("k"))) peer.send(std::string_view(&byte, 1));
  CHECK(peer.receive_value() == "v");
}

TEST_CASE("a client that ends its input after its requests gets all replies", "[store_proxy]") {
  StoreRig rig;
  RawPeer peer(rig.proxy().port());
  peer.send(encode({Op::validate, {}, {}, kMagic}) + encode(add("n", 1)) + encode(add("n", 1)) + encode(get("n")));
  peer.end_input();
  CHECK(peer.receive_number() == 1);
  CHECK(peer.receive_number() == 2);
  CHECK(peer.receive_value() == "2");
  CHECK(peer.closed_within(kSoon));
}

TEST_CASE("a client that ended its input before the store was asked gets its reply", "[store_proxy]") {
  StoreRig rig({.dial = false});
  auto ended = asking(rig.proxy().port(), 1, add("n", 1));
  ended.front().end_input();
  const auto later = asking(rig.proxy().port(), 1, add("n", 1));
  REQUIRE(eventually([&] { return rig.proxy().counts().requests == 2; }, kSoon));  // and the end was heard before
  rig.dial(0);
  CHECK(ended.front().receive_number() == 1);
  CHECK(ended.front().closed_within(kSoon));
}

TEST_CASE("what many clients of a node wait for or read at once travels once", "[store_proxy]") {
  StoreRig rig({.dial = false});
  StoreProxy& proxy = rig.proxy();
  RawPeer direct(rig.store().port());
  direct.greet().send(set("there", std::string(100'000, 'x'))).send(add("sync", 1)).receive_number();
  auto waiting = asking(proxy.port(), 300, wait_for("go"));
  auto reading = asking(proxy.port(), 200, get("there"));
  REQUIRE(eventually([&] { return proxy.counts().requests == 500; }, kSoon));
  rig.dial(0);
  for (RawPeer& peer : reading) REQUIRE(peer.receive_value().size() == 100'000);
  CHECK(rig.store().link_counts().requests == 2);
  CHECK(rig.store().link_counts().requesters == 500);
  CHECK(proxy.counts().sent == 2);
  CHECK(waiting.front().silent_for(20ms));
  direct.send(set("go", ""));
  for (RawPeer& peer : waiting) REQUIRE(peer.receive(1) == kReady);
}

TEST_CASE("a queue wakes the clients of a proxy one by one, the one that has waited longest first", "[store_proxy]") {
  StoreRig rig({.dial = false});
  auto waiting = asking(rig.proxy().port(), 3, wait_for("q"));
  REQUIRE(eventually([&] { return rig.proxy().counts().requests == 3; }, kSoon));
  rig.dial(0);
  RawPeer(rig.proxy().port()).greet();
  CHECK(rig.store().link_counts().requesters == 4);
  RawPeer direct(rig.store().port());
  direct.greet();
  std::vector<bool> woken(waiting.size());
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    direct.send({Op::queue_push, {"q"}, {"one"}}).send(add("sync", 1)).receive_number();
    const auto count_woken = [&] {
      std::size_t count = 0;
      for (std::size_t w = 0; w < waiting.size(); ++w) {
        if (!woken[w] && !waiting[w].silent_for(0ms)) woken[w] = waiting[w].receive(1) == kReady;
        count += woken[w];
      }
      return count;
    };
    REQUIRE(eventually([&] { return count_woken() > i; }, kSoon));
    CHECK(count_woken() == i + 1);
  }
}

TEST_CASE("a client that is reset while it waits leaves its turn to the next, through a proxy, too", "[store_proxy]") {
  StoreRig rig({.proxies = 2});
  const bool proxies = GENERATE(true, false);
  const std::uint16_t port = proxies ? rig.proxy(0).port() : rig.store().port(),
                      other_port = proxies ? rig.proxy(1).port() : port;
  RawPeer bystander(port), another(other_port);
  for (RawPeer* peer : {&bystander, &another}) peer->greet().send(add("n", 1)).receive_number();
  REQUIRE(eventually([&] { return rig.store().link_counts().links == 2; }, kSoon));
  const std::size_t without = open_fds().size();
  RawPeer first(port);
  first.greet().send(wait_for("q")).send(add("n", 1)).receive_number();
  first.reset();
  REQUIRE(eventually([&] { return open_fds().size() <= without; },
                     kSoon));                    // something earlier may still have been closing
  bystander.send(add("n", 1)).receive_number();  // behind the news of the first one's end
  RawPeer second(other_port);
  second.greet().send(wait_for("q")).send(add("n", 1)).receive_number();
  bystander.send({Op::queue_push, {"q"}, {"one"}});
  CHECK(second.receive(1) == kReady);
}

TEST_CASE("a proxy that ends leaves the turns of its clients to others", "[store_proxy]") {
  StoreRig rig({.proxies = 2});
  RawPeer first(rig.proxy(0).port()), second(rig.proxy(1).port());
  first.greet().send(wait_for("q")).send(add("n", 1)).receive_number();
  second.greet().send(wait_for("q")).send(add("n", 1)).receive_number();
  rig.end_proxy(0);
  CHECK(first.closed_within(kSoon));
  REQUIRE(eventually([&] { return rig.store().link_counts().links == 1; }, kSoon));
  RawPeer(rig.store().port()).greet().send({Op::queue_push, {"q"}, {"one"}}).send(add("n", 1)).receive_number();
  CHECK(second.receive(1) == kReady);
}

TEST_CASE("adding to text closes that client of a proxy alone, and nothing behind it is done", "[store_proxy]") {
  StoreRig rig;
  RawPeer peer(rig.proxy().port()), other(rig.proxy().port());
  other.greet();
  peer.greet().send(encode(set("k", "text")) + encode(add("k", 1)) + encode(set("behind", "v")));
  CHECK(peer.closed_within(kSoon));
  CHECK(other.send(get("behind")).receive_value().empty());
  CHECK(other.send(get("k")).receive_value() == "text");
}

TEST_CASE("a lost store closes all clients of a proxy, and says why, once", "[store_proxy]") {
  for (const Credentials& credentials : {Credentials{}, Credentials{token()}}) {
    Told lost;
    StoreRig rig({.credentials = credentials, .proxy = {.on_lost = lost.hook()}});
    RawPeer waiting(rig.proxy().port()), idle(rig.proxy().port());
    waiting.greet().send(wait_for("never"));
    idle.greet();
    rig.end_store();
    CHECK(waiting.closed_within(kSoon));
    CHECK(idle.closed_within(kSoon));
    REQUIRE(lost.something_within(kSoon));
    CHECK(lost.all() == std::vector<std::string>{"the other side closed the connection"});
    CHECK_THROWS(RawPeer(rig.proxy().port()));
  }
}

TEST_CASE("clients wait for the store to be reached, and no longer than they have to", "[store_proxy][waits]") {
  Told lost;
  StoreProxy proxy({.proxy_limits = {.connected_within = 2s}, .on_lost = lost.hook()});
  RawPeer peer(proxy.port());
  peer.send(encode({Op::validate, {}, {}, kMagic}) + encode(get("k")));
  CHECK(peer.closed_within(kSoon));
  REQUIRE(lost.something_within(kSoon));
  CHECK(lost.all() == std::vector<std::string>{"the store was not reached in time"});
}

TEST_CASE("a proxy whose store is told to be out of reach closes at once", "[store_proxy]") {
  Told lost;
  std::optional<StoreProxy> proxy(std::in_place, StoreProxy::Options{.on_lost = lost.hook()});
  const StoreUpstream upstream = proxy->upstream();
  RawPeer peer(proxy->port());
  upstream.failed("no such host");
  CHECK(peer.closed_within(kSoon));
  REQUIRE(lost.something_within(kSoon));
  CHECK(lost.all() == std::vector<std::string>{"no such host"});
  proxy.reset();
  upstream.failed("too late to matter");
  upstream.connected({});
}

TEST_CASE("a store that sends what is no reply is lost", "[store_proxy]") {
  for (const std::string& garbage :
       {std::string(100, 'x'), encode({LinkReplyKind::answer, 5, 1, 0}), std::string(21, '\0')}) {
    Told lost;
    StoreProxy proxy({.on_lost = lost.hook()});
    auto [store, other] = connected_pair();
    proxy.upstream().connected(std::move(store));
    REQUIRE(write(other.get(), garbage.data(), garbage.size()) == static_cast<ssize_t>(garbage.size()));
    REQUIRE(lost.something_within(kSoon));
    CHECK_THAT(lost.all().front(), Contains("the store"));
  }
}

TEST_CASE("a node that sends the store what is no request is dropped alone", "[store_proxy]") {
  StoreRig rig;
  RawPeer peer(rig.proxy().port());
  peer.greet();
  auto [node, other] = connected_pair();
  rig.store().gateway().serve(std::move(node));
  REQUIRE(eventually([&] { return rig.store().link_counts().links == 2; }, kSoon));
  REQUIRE(write(other.get(), "garbage", 7) == 7);
  CHECK(eventually([&] { return rig.store().link_counts().links == 1; }, kSoon));
  CHECK(peer.send(add("n", 1)).receive_number() == 1);
}

TEST_CASE("one node too many is turned away", "[store_proxy]") {
  Told lost;
  StoreRig rig({.store = {.address = "127.0.0.1", .limits = {.links_max = 1}}});
  CHECK(serves(rig.proxy().port()));
  StoreProxy second({.on_lost = lost.hook()});
  auto [node, other] = connected_pair();
  ReleasedPeer store;
  store.socket = std::move(other);
  rig.store().gateway().serve(std::move(node));
  second.upstream().connected(std::move(store));
  CHECK(lost.something_within(kSoon));
  CHECK(serves(rig.proxy().port()));
}

TEST_CASE("large values pass a proxy whole, plain and by token", "[store_proxy]") {
  for (const Credentials& credentials : {Credentials{}, Credentials{token()}}) {
    StoreRig rig({.credentials = credentials});
    RawPeer setting(rig.proxy().port()), getting(rig.proxy().port());
    std::string large(8 << 20, 'x');
    for (std::size_t i = 0; i < large.size(); i += 4099) large[i] = static_cast<char>(i / 4099);
    setting.greet().send(set("large", large)).send({Op::append, {"large"}, {large}}).send(add("n", 1)).receive_number();
    getting.greet().send({Op::multi_get, {"large", "n", "large"}});
    CHECK(getting.receive_value() == large + large);
    CHECK(getting.receive_value() == "1");
    CHECK(getting.receive_value() == large + large);
    CHECK(getting.send(add("n", 1)).receive_number() == 2);
  }
}

TEST_CASE("what is asked while a large value is on its way follows it", "[store_proxy][not-tsan]") {
  for (const Credentials& credentials : {Credentials{}, Credentials{token()}}) {
    StoreRig rig({.credentials = credentials});
    RawPeer setting(rig.proxy().port()), asking(rig.proxy().port());
    setting.greet();
    asking.greet();
    const std::string large = encode(set("large", std::string(8 << 20, 'x')));
    for (int i = 1; i <= 5; ++i) {
      setting.send(large);
      REQUIRE(asking.send(add("n", 1)).receive_number() == i);
    }
  }
}

TEST_CASE("a deaf client of a proxy holds up nobody, and is dropped", "[store_proxy]") {
  StoreRig rig({.proxy = {.limits = {.write_stall_max = 500ms}}});
  RawPeer setting(rig.proxy().port()), deaf(rig.proxy().port());
  setting.greet().send(set("large", std::string(8 << 20, 'z'))).send(add("n", 1)).receive_number();
  deaf.receive_buffer(4096);
  deaf.greet();
  for (int i = 0; i < 20; ++i) deaf.send(get("large"));
  for (int i = 0; i < 20; ++i) CHECK(serves(rig.proxy().port()));
  CHECK(rig.proxy().counts().sent < 60);  // one large reply of its 20 at most is on its way
  CHECK(deaf.refuses_writes_within(kSoon));
}

TEST_CASE("while the store does not accept data, a proxy takes so much and no more", "[store_proxy][not-tsan]") {
  StoreRig rig({.proxy = {.proxy_limits = {.unsent_bytes_max = 1 << 20}}, .dial = false});
  RawPeer flooding(rig.proxy().port());
  flooding.send({Op::validate, {}, {}, kMagic});
  const std::string one = encode(set("k", std::string(10'000, 'v')));
  const std::size_t sent = flooding.send_until_stuck(one, 300ms);
  CHECK(sent < 64u << 20);
  CHECK(sent > 1u << 20);
  rig.dial(0);
  flooding.send(std::string_view(one).substr(sent % one.size())).send(add("n", 1));  // and all of it arrives
  CHECK(flooding.receive_number() == 1);
  CHECK(rig.store().link_counts().requests == sent / one.size() + (sent % one.size() > 0 ? 1 : 1) + 1);
}

TEST_CASE("a node that reads nothing holds up no other, and is dropped", "[store_proxy][not-tsan]") {
  StoreRig rig({.store = {.address = "127.0.0.1", .limits = {.write_stall_max = 500ms}}});
  RawPeer setting(rig.store().port());
  setting.greet().send(set("large", std::string(8 << 20, 'z'))).send(add("n", 1)).receive_number();
  auto [node, deaf] = connected_pair();
  rig.store().gateway().serve(std::move(node));
  std::string asks;
  for (int i = 0; i < 50; ++i) asks += encode_request_head(1) + encode(get("large"));
  REQUIRE(write(deaf.get(), asks.data(), asks.size()) == static_cast<ssize_t>(asks.size()));
  REQUIRE(eventually([&] { return rig.store().link_counts().requests > 0; }, kSoon));
  for (int i = 0; i < 20; ++i) CHECK(serves(rig.proxy().port()));
  CHECK(rig.store().link_counts().requests < 50);  // 40 of them were those others'
  CHECK(eventually([&] { return rig.store().link_counts().links == 1; }, kSoon));
}

TEST_CASE("a store and a proxy that nobody asks use no processor time", "[store_proxy]") {
  StoreRig rig;
  RawPeer waiting(rig.proxy().port()), idle(rig.proxy().port());
  waiting.greet().send(wait_for("never")).send(add("n", 1)).receive_number();
  idle.greet();
  const auto before = process_cpu_time();
  CHECK(waiting.silent_for(500ms));
  CHECK(process_cpu_time() - before < 200ms);
}

TEST_CASE("a store and a proxy leave nothing behind, no descriptor and no thread, and take no signal",
          "[store_proxy]") {
  const auto threads = [] {  // their pages in /proc, by name
    std::map<std::string, fs::path> found;
    for (const auto& task : fs::directory_iterator("/proc/self/task"))
      found[read_file(task.path() / "comm")] = task.path();
    return found;
  };
  const auto before = open_fds();
  for (const Credentials& credentials : {Credentials{}, Credentials{token()}}) {
    StoreRig rig({.credentials = credentials});
    RawPeer client(rig.proxy().port());
    client.greet();
    CHECK(serves(rig.proxy().port()));
    std::size_t ours = 0;
    for (const int fd : open_fds()) {
      if (before.contains(fd)) continue;
      std::error_code closed;
      INFO("fd " << fd << " " << fs::read_symlink("/proc/self/fd/" + std::to_string(fd), closed));
      CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
      ++ours;
    }
    CHECK(ours >= 5);  // the listeners and both ends of the connection at least
    for (const char* thread : {"ddprun-store\n", "ddprun-proxy\n"}) {
      const std::string status = read_file(threads().at(thread) / "status");
      const auto mask = std::stoull(status.substr(status.find("SigBlk:") + 7), nullptr, 16);
      for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE}) {
        INFO("signal " << signal << ", " << thread);
        CHECK((mask >> (signal - 1) & 1) == 1);
      }
    }
  }
  CHECK(eventually([&] { return open_fds() == before; }, kSoon));
  // They are joined a moment before /proc knows.
  CHECK(eventually([&] { return !threads().contains("ddprun-store\n") && !threads().contains("ddprun-proxy\n"); },
                   kSoon));
}

TEST_CASE("a store and a proxy end at once, whatever their clients do", "[store_proxy][not-tsan]") {
  std::optional<StoreRig> rig(std::in_place);
  const bool of_proxy = GENERATE(true, false);
  const std::uint16_t port = of_proxy ? rig->proxy().port() : rig->store().port();
  RawPeer waiting(port), silent(port), deaf(port), flooding(port);
  waiting.greet().send(wait_for("never"));
  deaf.greet().send(set("large", std::string(8 << 20, 'z')));
  for (int i = 0; i < 10; ++i) deaf.send(get("large"));
  flooding.greet().send_until_stuck(encode(get("large")), 20ms);
  const auto start = Clock::now();
  of_proxy ? rig->end_proxy(0) : rig->end_store();
  CHECK(Clock::now() - start < 20s);  // none of their limits for slow clients is as short
  CHECK(waiting.closed_within(kSoon));
}

TEST_CASE("a dialer tries until the store's agent knows the round", "[store_proxy]") {
  const auto trust = [](const char* name) {
    return PeerTrust{std::make_shared<TlsContext>(NoCredentials{}, "job"), make_identity(name, "job"), {}};
  };
  asio::io_context io;
  Server store({.address = "127.0.0.1"});
  int refused = 0;
  const std::string opening = framed(encode_store_opening(3));
  std::list<PeerConnection> newcomers;
  std::array<char, 256> input{};
  PeerListener listener(io, open_listener("127.0.0.1", 0), trust("node0"),
                        {[&](PeerConnection peer) {
                           if (++refused <= 2) return;
                           newcomers.push_back(std::move(peer));
                           newcomers.back().read_some(asio::buffer(input), [&](const std::error_code&, std::size_t n) {
                             CHECK(std::string(input.data(), n) == opening);
                             serve_store(std::move(newcomers.back()), store.gateway());
                           });
                         },
                         [](const std::string&) {}});
  StoreProxy proxy({});
  const StoreDialer dialer(io, {"127.0.0.1", listener.port(), 3, trust("node1")}, proxy.upstream());
  std::thread running([&] { io.run(); });
  CHECK(serves(proxy.port()));
  io.stop();
  running.join();
  CHECK(refused == 3);
}

TEST_CASE("a dialer that finds no store tells the proxy where it looked", "[store_proxy]") {
  const PeerTrust trust{std::make_shared<TlsContext>(NoCredentials{}, "job"), make_identity("node1", "job"), {}};
  asio::io_context io;
  Told lost;
  StoreProxy proxy({.on_lost = lost.hook()});
  const Listening nobody = open_listener("127.0.0.1", 0);
  close(nobody.fd);
  const StoreDialer dialer(io, {"127.0.0.1", nobody.port, 3, trust, 300ms}, proxy.upstream());
  io.run();
  REQUIRE(lost.something_within(kSoon));
  CHECK(lost.all().front() ==
        "no connection to the store at 127.0.0.1, port " + std::to_string(nobody.port) + ": Connection refused");
}

TEST_CASE("the first message names a round, and nothing else passes for it", "[store_proxy]") {
  CHECK(parse_store_opening(encode_store_opening(7)) == 7);
  for (const char* other :
       {"", "7", "[]", "{}", R"({"type":"store"})", R"({"type":"store","round":"7"})", R"({"type":"store","round":0})",
        R"({"type":"store","round":4294967296})", R"({"type":"hello","round":7})"})
    CHECK_FALSE(parse_store_opening(other));
  CHECK(is_store_welcome(store_welcome()));
  CHECK_FALSE(is_store_welcome(encode_store_opening(7)));
}

namespace {

// A process of another user that connects and asks: 0 served, 1 closed, else it could not. Nothing but system calls in
// it: other threads' locks are not its.
int asked_as(uid_t user, std::uint16_t port) {
  const std::string bytes = encode({Op::validate, {}, {}, kMagic}) + encode({Op::ping, {}, {}, 7});
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const pid_t pid = fork();
  if (pid == 0) {
    if (syscall(SYS_setuid, user) != 0) _exit(2);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) _exit(3);
    [[maybe_unused]] const ssize_t ignored = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char answer[4];
    _exit(recv(fd, answer, sizeof answer, 0) == 4 ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("processes of other users get nothing from a store or a proxy, told once", "[store_proxy]") {
  if (geteuid() != 0) {
    WARN("skipped: only root can start a process of another user");
    return;
  }
  Told refused;
  StoreRig rig({.store = {.address = "127.0.0.1", .log = refused.hook()}, .proxy = {.log = refused.hook()}});
  for (const std::uint16_t port : {rig.proxy().port(), rig.store().port()}) {
    CHECK(asked_as(0, port) == 0);
    for (int i = 0; i < 3; ++i) CHECK(asked_as(65'534, port) == 1);
  }
  const std::string line =
      "refused a client on this machine: its process belongs to user 65534, ddprun's to 0 "
      "(--store-users any lets it in)";
  CHECK(refused.all() == std::vector<std::string>{line, line});  // one of each
  const Server on_all_addresses({.log = refused.hook()});
  CHECK(asked_as(65'534, on_all_addresses.port()) == 1);
  const Server open({.address = "127.0.0.1", .own_user_only = false});
  CHECK(asked_as(65'534, open.port()) == 0);
}
