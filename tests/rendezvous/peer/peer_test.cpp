// Agents that connect to each other over loopback, and unauthenticated peers that try; all in one loop.
#include <malloc.h>

#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/write.hpp>

#include "rendezvous/peer/peer_listener.h"
#include "tests/rendezvous/peer/certificates.h"
#include "tests/rendezvous/store/raw_peer.h"
#include "tests/support/test.h"

using asio::ip::tcp;

namespace {

constexpr auto kLimit = 20s;  // for whatever a test waits for

PeerTrust trust(const std::string& name, Credentials credentials = NoCredentials{}, const std::string& job = "job") {
  return {std::make_shared<TlsContext>(std::move(credentials), job), make_identity(name, job), {}};
}

Token token(const std::string& text = "00112233445566778899aabbccddeeff") {
  return std::get<Token>(Token::parse(text));
}

// The loop runs until the condition holds.
template <class Condition>
bool run_until(asio::io_context& io, Condition condition) {
  const auto limit = Clock::now() + kLimit;
  while (!condition() && Clock::now() < limit) {
    io.restart();
    io.run_one_for(100ms);
  }
  return condition();
}

// A listening agent and all it hears.
struct Host {
  Host(asio::io_context& io, PeerTrust own)
      : listener(io, open_listener("127.0.0.1", 0), std::move(own),
                 {[this](PeerConnection peer) { peers.push_back(std::move(peer)); },
                  [this](const std::string& line) { refusals.push_back(line); }}) {}
  tcp::endpoint endpoint() const { return {asio::ip::address_v4::loopback(), listener.port()}; }

  std::deque<PeerConnection> peers;
  std::vector<std::string> refusals;
  PeerListener listener;
};

// A connecting agent.
struct Guest {
  Guest(asio::io_context& io, const tcp::endpoint& to, const PeerTrust& own, Duration within = kLimit)
      : connection(connected(io, to), PeerRole::client, own) {
    connection.handshake(Clock::now() + within, [this](const std::string& why) { refusal = why; });
  }
  static tcp::socket connected(asio::io_context& io, const tcp::endpoint& to) {
    tcp::socket socket(io);
    socket.connect(to);
    return socket;
  }

  std::optional<std::string> refusal;  // empty text: all is well
  PeerConnection connection;
};

// Reads so many bytes, or until an error.
struct Reader {
  Reader(PeerConnection& from, std::size_t size) : from_(from), size_(size) { next(); }
  bool over() const { return error || text.size() >= size_; }
  std::string text;
  std::error_code error;

 private:
  void next() {
    from_.read_some(asio::buffer(buffer_), [this](const std::error_code& failed, std::size_t count) {
      error = failed;
      text.append(buffer_.data(), count);
      if (!over()) next();
    });
  }
  PeerConnection& from_;
  std::size_t size_;
  std::array<char, 50'000> buffer_;
};

bool arrives(asio::io_context& io, PeerConnection& from, PeerConnection& to, const std::string& text) {
  bool written = false;
  from.write(asio::buffer(text), [&](const std::error_code& error) { written = !error; });
  Reader reader(to, text.size());
  return run_until(io, [&] { return written && reader.over(); }) && reader.text == text;
}

// Stands between a client and a host, and hears, holds back or changes what passes.
class Relay {
 public:
  Relay(asio::io_context& io, const tcp::endpoint& host)
      : io_(io), host_(host), acceptor_(io, {asio::ip::address_v4::loopback(), 0}) {
    acceptor_.async_accept([this](const std::error_code& error, tcp::socket socket) {
      if (error) return;
      near_.emplace(std::move(socket));
      far_.emplace(Guest::connected(io_, host_));
      pump(*near_, *far_, from_client, to_host_);
      pump(*far_, *near_, from_host, to_client_);
    });
  }
  tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }
  void cut() {
    near_.reset();
    far_.reset();
  }

  std::string from_client, from_host;
  bool tampering = false;

 private:
  using Buffer = std::array<char, 4096>;
  void pump(tcp::socket& from, tcp::socket& to, std::string& record, Buffer& buffer) {
    from.async_read_some(asio::buffer(buffer), [&](const std::error_code& error, std::size_t count) {
      if (!near_) return;
      if (error) return cut();
      record.append(buffer.data(), count);
      if (tampering) buffer[count - 1] = static_cast<char>(buffer[count - 1] ^ 1);
      std::error_code ignored;
      asio::write(to, asio::buffer(buffer.data(), count), ignored);
      pump(from, to, record, buffer);
    });
  }

  asio::io_context& io_;
  tcp::endpoint host_;
  tcp::acceptor acceptor_;
  std::optional<tcp::socket> near_, far_;
  Buffer to_host_, to_client_;
};

// Two agents that have met.
struct Pair {
  explicit Pair(const PeerTrust& host_trust = trust("node0", token()),
                const PeerTrust& guest_trust = trust("node1", token()))
      : host(io, host_trust), relay(io, host.endpoint()), guest(io, relay.endpoint(), guest_trust) {
    REQUIRE(run_until(io, [&] { return guest.refusal && !host.peers.empty(); }));
  }
  PeerConnection& there() { return host.peers.front(); }

  asio::io_context io;
  Host host;
  Relay relay;
  Guest guest;
};

// What both sides say of each other.
struct Answers {
  std::string host, guest;
};
Answers answers(const PeerTrust& host_trust, const PeerTrust& guest_trust) {
  asio::io_context io;
  Host host(io, host_trust);
  Guest guest(io, host.endpoint(), guest_trust);
  REQUIRE(run_until(io, [&] { return guest.refusal && (!host.refusals.empty() || !host.peers.empty()); }));
  return {host.refusals.empty() ? "" : host.refusals.front(), *guest.refusal};
}

std::size_t heap_bytes() { return mallinfo2().uordblks; }

}  // namespace

TEST_CASE("two agents know each other's names and talk: plain, by token, by certificates", "[peer]") {
  const NodeFiles files;
  for (const Credentials& credentials : {Credentials{}, Credentials{token()}, files.credentials()}) {
    asio::io_context io;
    Host host(io, trust("node0", credentials));
    Guest guest(io, host.endpoint(), trust("node1", credentials));
    REQUIRE(run_until(io, [&] { return guest.refusal && !host.peers.empty(); }));
    CHECK(guest.refusal->empty());
    CHECK(host.refusals.empty());
    CHECK(host.listener.unauthenticated() == 0);
    CHECK(guest.connection.peer().name == "node0");
    CHECK(host.peers.front().peer().name == "node1");
    CHECK(arrives(io, guest.connection, host.peers.front(), "join"));
    CHECK(arrives(io, host.peers.front(), guest.connection, "round"));
    std::string large(3'000'000, 'x');
    for (std::size_t i = 0; i < large.size(); i += 101) large[i] = static_cast<char>(i);
    CHECK(arrives(io, host.peers.front(), guest.connection, large));
    CHECK(arrives(io, guest.connection, host.peers.front(), large));
  }
}

TEST_CASE("both sides may write a lot at the same time", "[peer]") {
  Pair pair;
  const std::string large(5'000'000, 'x');
  int written = 0;
  pair.guest.connection.write(asio::buffer(large), [&](const std::error_code& error) { written += !error; });
  pair.there().write(asio::buffer(large), [&](const std::error_code& error) { written += !error; });
  Reader here(pair.there(), large.size()), there(pair.guest.connection, large.size());
  CHECK(run_until(pair.io, [&] { return here.over() && there.over() && written == 2; }));
  CHECK(here.text == large);
  CHECK(there.text == large);
}

TEST_CASE("a side that closes is told from a connection that was cut", "[peer]") {
  for (const bool cut : {false, true}) {
    Pair pair;
    cut ? pair.relay.cut() : pair.guest.connection.close();
    Reader reader(pair.there(), 1);
    REQUIRE(run_until(pair.io, [&] { return reader.over(); }));
    CHECK(reader.error == (cut ? std::make_error_code(std::errc::connection_aborted)
                               : std::error_code(asio::error::make_error_code(asio::error::eof))));
  }
}

TEST_CASE("bytes changed on the way are not read", "[peer]") {
  Pair pair;
  pair.relay.tampering = true;
  const std::string text = "stop at step 7";
  pair.guest.connection.write(asio::buffer(text), [](const std::error_code&) {});
  Reader reader(pair.there(), 1);
  REQUIRE(run_until(pair.io, [&] { return reader.over(); }));
  CHECK(reader.error == std::errc::bad_message);
  CHECK(reader.text.empty());
}

TEST_CASE("with a token nothing that is said can be read on the way", "[peer]") {
  Pair pair(trust("a-name-of-a-host", token(), "a-name-of-a-job"),
            trust("a-name-of-a-guest", token(), "a-name-of-a-job"));
  CHECK(arrives(pair.io, pair.guest.connection, pair.there(), "a-secret"));
  for (const char* word : {"a-name", "a-secret", "00112233"}) {
    CHECK(pair.relay.from_client.find(word) == std::string::npos);
    CHECK(pair.relay.from_host.find(word) == std::string::npos);
  }
}

TEST_CASE("sides that do not fit together part, and each says why", "[peer]") {
  const NodeFiles files, others;
  const auto own = [](Credentials credentials, const char* job = "job") {
    return trust("node", std::move(credentials), job);
  };
  const std::string other = "ffeeddccbbaa99887766554433221100",
                    closed = "it closed the connection: perhaps the job has ",
                    another_job = "it belongs to another job (--rdzv-id)";
  const Token wrong = token(other);
  const auto check = [](const Answers& said, const std::string& host, const std::string& guest) {
    CHECK(said.host == "refused 127.0.0.1: " + host);
    CHECK(said.guest == guest);
    CHECK((said.host + said.guest).find("0011") == std::string::npos);
    CHECK((said.host + said.guest).find("ffee") == std::string::npos);
  };
  check(answers(own(token()), own(wrong)), "its token or its job (--rdzv-id) is not this node's",
        "it has another token, or belongs to another job (--rdzv-id)");
  check(answers(own(token()), own(token(), "x")), "its token or its job (--rdzv-id) is not this node's",
        "it has another token, or belongs to another job (--rdzv-id)");
  check(answers(own(token()), own({})), "it uses neither a token nor certificates, but this node does",
        closed + "a token or certificates, and this node has none");
  check(answers(own({}), own(token())), "it uses a token or certificates, and this node has none",
        closed + "neither token nor certificates, but this node does");
  check(answers(own({}), own({}, "x")), another_job, another_job);
  check(answers(own(files.credentials()), own(files.credentials(), "x")), another_job, another_job);
  check(answers(own(files.credentials()), own(others.credentials())),
        "it refused this node's certificate (decrypt error)",
        "its certificate is refused: certificate signature failure");
  check(answers(own(token()), own(files.credentials())), "it presented no token",
        "it refused this node's certificate (handshake failure)");
  check(answers(own(files.credentials()), own(token())), "it refused this node's certificate (unknown CA)",
        "it presented a certificate instead of the token");
}

TEST_CASE("an agent that is led back to itself finds it out", "[peer]") {
  const NodeFiles files;
  for (const Credentials& credentials : {Credentials{}, Credentials{token()}, files.credentials()}) {
    const PeerTrust ourselves = trust("node0", credentials);
    const Answers said = answers(ourselves, ourselves);
    CHECK(said.host.find("it is this agent itself") != std::string::npos);
    CHECK_FALSE(said.guest.empty());
  }
}

TEST_CASE("unauthenticated peers that say nothing, half of it, or a byte at a time are gone at the deadline",
          "[peer]") {
  for (const Credentials& credentials : {Credentials{}, Credentials{token()}}) {
    asio::io_context io;
    PeerTrust own = trust("node0", credentials);
    own.limits.authenticate_within = 200ms;
    own.limits.refusal_log_interval = 0ms;
    Host host(io, own);
    std::string hello =
        "ddprun\x01"
        "C";
    if (credentials.index() == 1) {
      const auto session = own.tls->open(PeerRole::client);
      session->handshake();
      char bytes[2000];
      hello.assign(bytes, session->take_out(bytes, sizeof bytes));
    }
    const auto begin = Clock::now();
    tcp::socket silent = Guest::connected(io, host.endpoint()), half = Guest::connected(io, host.endpoint()),
                slow = Guest::connected(io, host.endpoint());
    asio::write(half, asio::buffer(hello.data(), hello.size() / 2));
    std::size_t said = 0;
    CHECK(run_until(io, [&] {
      std::error_code ignored;
      if (said + 1 < hello.size()) asio::write(slow, asio::buffer(hello.data() + said++, 1), ignored);
      return host.refusals.size() == 3;
    }));
    CHECK(Clock::now() - begin >= 200ms);
    for (const std::string& line : host.refusals) CHECK(line == "refused 127.0.0.1: it did not authenticate in time");
    CHECK(host.listener.unauthenticated() == 0);
  }
}

TEST_CASE("a guest does not wait for ever for a host that says nothing", "[peer]") {
  asio::io_context io;
  tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
  Guest guest(io, silent.local_endpoint(), trust("node1", token()), 100ms);
  REQUIRE(run_until(io, [&] { return guest.refusal.has_value(); }));
  CHECK(*guest.refusal == "it did not authenticate in time");
}

TEST_CASE("an unauthenticated peer may send so many bytes before its proof, and no more", "[peer]") {
  asio::io_context io;
  PeerTrust own = trust("node0", token());
  own.limits.unauthenticated_bytes_max = 100;
  Host host(io, own);
  Guest guest(io, host.endpoint(), trust("node1", token()));
  REQUIRE(run_until(io, [&] { return !host.refusals.empty(); }));
  CHECK(host.refusals.front() == "refused 127.0.0.1: it sent too much before it was authenticated");
  CHECK(run_until(io, [&] { return guest.refusal && !guest.refusal->empty(); }));
}

TEST_CASE("what speaks another protocol is refused at its first bytes", "[peer]") {
  for (const Credentials& credentials : {Credentials{}, Credentials{token()}}) {
    for (const std::string text : {"GET / HTTP/1.1\r\n\r\n", "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n"}) {
      asio::io_context io;
      Host host(io, trust("node0", credentials));
      tcp::socket stranger = Guest::connected(io, host.endpoint());
      asio::write(stranger, asio::buffer(text));
      REQUIRE(run_until(io, [&] { return !host.refusals.empty(); }));
      CHECK(host.refusals.front() ==
            std::string("refused 127.0.0.1: ") +
                (credentials.index() ? "it does not speak TLS as ddprun does" : "it is not ddprun"));
    }
  }
}

TEST_CASE("a member comes in through a crowd of unauthenticated peers, which holds no more than its share", "[peer]") {
  asio::io_context io;
  PeerTrust own = trust("node0", token());
  own.limits.unauthenticated_per_source_max = 10;
  Host host(io, own);
  std::vector<tcp::socket> crowd;
  for (int i = 0; i < 60; ++i) crowd.push_back(Guest::connected(io, host.endpoint()));
  Guest guest(io, host.endpoint(), trust("node1", token()));
  REQUIRE(run_until(io, [&] { return guest.refusal.has_value() && !host.peers.empty(); }));
  CHECK(guest.refusal->empty());
  CHECK(host.listener.unauthenticated() < 10);
  REQUIRE(host.refusals.size() == 1);  // of 51
  CHECK(host.refusals.front() == "refused 127.0.0.1: too many unauthenticated connections at a time");
}

TEST_CASE("a source whose unauthenticated peers fail over and over is not heard for a while", "[peer]") {
  asio::io_context io;
  PeerTrust own = trust("node0", token());
  own.limits.failures_per_source_max = 5;
  own.limits.failures_per_source_per_second = 2;
  own.limits.source_block_time = 100ms;
  own.limits.refusal_log_interval = 0ms;
  Host host(io, own);
  const PeerTrust wrong = trust("node1", token("ffeeddccbbaa99887766554433221100"));
  const auto fail = [&](Guest& guest) {
    const std::size_t before = host.refusals.size();
    REQUIRE(run_until(io, [&] { return guest.refusal && host.refusals.size() > before; }));
    return host.refusals.back();
  };
  Guest first(io, host.endpoint(), wrong);
  const std::string heard = fail(first);
  {
    Guest member(io, host.endpoint(), trust("node1", token()));
    REQUIRE(run_until(io, [&] { return member.refusal && !host.peers.empty(); }));
  }
  for (int i = 0; i < 4; ++i) {  // what failed before the member does not count
    Guest guest(io, host.endpoint(), wrong);
    CHECK(fail(guest) == heard);
  }
  Guest last(io, host.endpoint(), wrong);
  std::vector<tcp::socket> in_the_queue;  // the kernel has taken them before it is told to drop them
  for (int i = 0; i < 100; ++i) in_the_queue.push_back(Guest::connected(io, host.endpoint()));
  CHECK(run_until(io, [&] {
    return !host.refusals.empty() && host.refusals.back() == "refused 127.0.0.1: it has failed too often recently";
  }));
  tcp::socket again(io);
  bool connected = false;
  again.async_connect(host.endpoint(), [&](const std::error_code& error) { connected = !error; });
  CHECK(run_until(io, [&] { return connected; }));  // by the kernel's second attempt
  Guest member(io, host.endpoint(), trust("node2", token()));
  CHECK(run_until(io, [&] { return member.refusal && member.refusal->empty(); }));
}

TEST_CASE("an unauthenticated peer in the middle of its handshake holds 64 KiB at most", "[peer][release-only]") {
  constexpr std::size_t kStrangers = 200;
  asio::io_context io;
  PeerTrust own = trust("node0", token());
  own.limits.unauthenticated_per_source_max = 2 * kStrangers;
  own.tls->prepare();
  Host host(io, own);
  const auto session = own.tls->open(PeerRole::client);
  session->handshake();
  char bytes[2000];
  const std::string hello(bytes, session->take_out(bytes, sizeof bytes));
  std::vector<tcp::socket> crowd;
  for (std::size_t i = 0; i < kStrangers; ++i) crowd.push_back(Guest::connected(io, host.endpoint()));
  REQUIRE(run_until(io, [&] { return host.listener.unauthenticated() == kStrangers; }));
  const std::size_t silent = heap_bytes();
  std::size_t answered = 0;
  for (tcp::socket& stranger : crowd) {
    asio::write(stranger, asio::buffer(hello));
    stranger.async_wait(tcp::socket::wait_read, [&](const std::error_code& error) { answered += !error; });
  }
  REQUIRE(run_until(io, [&] { return answered == kStrangers; }));
  const std::size_t each = (heap_bytes() - silent) / kStrangers + (4 << 10);
  CAPTURE(each);
  CHECK(each < (64 << 10));
  CHECK(host.listener.unauthenticated() == kStrangers);
}

TEST_CASE("no handler is called after the end, and a handler may end its connection", "[peer]") {
  asio::io_context io;
  Host host(io, trust("node0", token()));
  auto guest = std::make_unique<Guest>(io, host.endpoint(), trust("node1", token()));
  REQUIRE(run_until(io, [&] { return guest->refusal && !host.peers.empty(); }));
  int calls = 0;
  std::array<char, 16> buffer;
  guest->connection.read_some(asio::buffer(buffer), [&](const std::error_code&, std::size_t) { ++calls; });
  host.peers.front().read_some(asio::buffer(buffer), [&](const std::error_code& error, std::size_t) {
    CHECK(error == asio::error::eof);
    host.peers.clear();
  });
  guest.reset();
  CHECK(run_until(io, [&] { return host.peers.empty(); }));
  Guest late(io, host.endpoint(), trust("node2", token()));
  late.connection.close();
  io.restart();
  io.poll();
  CHECK(calls == 0);
  CHECK_FALSE(late.refusal);
}

TEST_CASE("a listener that ends takes its unauthenticated peers with it", "[peer]") {
  asio::io_context io;
  auto host = std::make_unique<Host>(io, trust("node0", token()));
  Guest guest(io, host->endpoint(), trust("node1", token()));
  tcp::socket silent = Guest::connected(io, host->endpoint());
  REQUIRE(run_until(io, [&] { return host->listener.unauthenticated() > 0; }));
  host.reset();
  CHECK(run_until(io, [&] { return guest.refusal && !guest.refusal->empty(); }));
}
