// The HTTP server with real connections on loopback, all in one thread.
#include "agent/http/http_server.h"

#include <asio/read.hpp>
#include <asio/write.hpp>

#include "tests/support/test.h"

namespace {

constexpr auto kLimit = 20s;
const std::string kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

class Rig {
 public:
  explicit Rig(HttpLimits limits = {}) {
    server.emplace(
        io, rendezvous::open_listener("127.0.0.1", 0),
        [this](const HttpRequest& request, HttpServer::Answer answer) {
          if (request.path == "/stream") return answer({.body = "first\n", .stream = true});
          if (request.path == "/later") return later.push_back(std::move(answer));
          answer({.body = request.path == "/big" ? std::string(64 << 20, 'x') : request.path});
        },
        limits);
  }

  // Looks after each handler: what a limit ends soon is seen before.
  bool until(const std::function<bool()>& holds) {
    for (const auto limit = Clock::now() + kLimit; !holds() && Clock::now() < limit;) io.run_one_for(10ms);
    return holds();
  }

  asio::io_context io;
  std::optional<HttpServer> server;
  std::vector<HttpServer::Answer> later;
};

// Reads whatever comes.
class Client {
 public:
  explicit Client(Rig& rig, bool reads = true) : rig_(rig), socket_(rig.io) {
    socket_.connect({asio::ip::address_v4::loopback(), rig.server->port()});
    if (reads) read();
  }
  ~Client() {
    std::error_code ignored;
    socket_.close(ignored);
    rig_.until([&] { return !reading_; });
  }
  Client& send(const std::string& bytes) {
    std::error_code ignored;  // the server may have closed it
    asio::write(socket_, asio::buffer(bytes), ignored);
    return *this;
  }
  bool gets(const std::string& text) {
    return rig_.until([&] { return got.find(text) != std::string::npos; });
  }
  bool is_closed() {
    return rig_.until([&] { return closed; });
  }

  std::string got;
  bool closed = false;

 private:
  void read() {
    reading_ = true;
    socket_.async_read_some(asio::buffer(bytes_), [this](const std::error_code& error, std::size_t count) {
      reading_ = false;
      got.append(bytes_, count);
      closed = static_cast<bool>(error);
      if (!error) read();
    });
  }

  Rig& rig_;
  asio::ip::tcp::socket socket_;
  char bytes_[4096];
  bool reading_ = false;
};

}  // namespace

TEST_CASE("requests on one connection are answered in their order, also those sent ahead", "[http]") {
  Rig rig;
  Client client(rig);
  CHECK(client.send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\nGET /3 HT").gets("/2"));
  CHECK(client.send("TP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").is_closed());
  const auto first = client.got.find("\r\n\r\n/1"), second = client.got.find("\r\n\r\n/2"),
             third = client.got.find("\r\n\r\n/3");
  CHECK(first < second);
  CHECK(second < third);
  CHECK(third != std::string::npos);
  CHECK(rig.until([&] { return rig.server->connections() == 0; }));
}

TEST_CASE("HEAD gets everything but the body, and other methods are refused", "[http]") {
  Rig rig;
  Client head(rig), post(rig);
  CHECK(head.send("HEAD /abc HTTP/1.0\r\n\r\n").is_closed());
  CHECK(head.got.find("Content-Length: 4\r\n") != std::string::npos);
  CHECK(head.got.ends_with("\r\n\r\n"));
  CHECK(post.send("DELETE /abc HTTP/1.1\r\nHost: x\r\n\r\n").gets("Allow: GET, HEAD"));
  CHECK(post.got.starts_with("HTTP/1.1 405 "));
  CHECK(post.send(kGet).gets("\r\n\r\n/a"));
}

TEST_CASE("garbage is answered with a line, and its connection closed", "[http]") {
  Rig rig;
  for (const std::string& garbage :
       {std::string("\x16\x03\x01\x02\x00"), std::string(9000, 'x'), kGet.substr(0, 20) + std::string(9000, 'y'),
        std::string("GET / HTTP/1.1\r\n\r\n") + kGet}) {
    Client client(rig);
    CHECK(client.send(garbage).is_closed());
    CHECK(client.got.starts_with("HTTP/1.1 4"));
    CHECK(client.got.find("/a") == std::string::npos);
  }
  CHECK(Client(rig).send(kGet).gets("/a"));
}

TEST_CASE("a client that sends nothing, or half a request, is closed in time, and holds up nobody", "[http]") {
  Rig rig({.request_within = 200ms});
  Client silent(rig), slow(rig), second(rig);
  slow.send("GET /a HT");
  CHECK(second.send(kGet + "GET").gets("/a"));
  CHECK(silent.is_closed());
  CHECK(slow.is_closed());
  CHECK(second.is_closed());
  CHECK(silent.got.empty());
}

TEST_CASE("a connection that is idle for too long is closed, and one that asks too often", "[http]") {
  Rig rig({.requests_max = 2, .request_within = 1h, .idle_max = 100ms});
  Client idle(rig), often(rig);
  CHECK(often.send(kGet + kGet + kGet).is_closed());
  CHECK(often.got.find("Connection: close") != std::string::npos);
  CHECK(idle.send(kGet).gets("/a"));
  CHECK(idle.is_closed());
}

TEST_CASE("a client that does not read its answer is closed in time", "[http]") {
  Rig rig({.write_within = 200ms});
  Client deaf(rig, /*reads=*/false);
  deaf.send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(rig.until([&] { return rig.server->connections() == 1; }));
  CHECK(Client(rig).send(kGet).gets("/a"));
  CHECK(rig.until([&] { return rig.server->connections() == 0; }));
}

TEST_CASE("many silent connections keep no client out", "[http]") {
  constexpr std::size_t kMost = 8;
  Rig rig({.connections_max = kMost, .request_within = 1h});
  std::vector<std::unique_ptr<Client>> attackers;
  for (int i = 0; i < 100; ++i) attackers.push_back(std::make_unique<Client>(rig));
  CHECK(rig.until([&] { return rig.server->connections() == kMost; }));
  Client client(rig);
  CHECK(client.send(kGet).gets("/a"));
  CHECK(rig.server->connections() <= kMost);
  CHECK(attackers.front()->is_closed());
}

TEST_CASE("requests whose answers are awaited are limited, and closed for nobody", "[http]") {
  Rig rig({.connections_max = 4, .answers_max = 2});
  const std::string kLater = "GET /later HTTP/1.1\r\nHost: x\r\n\r\n";
  Client first(rig), second(rig), third(rig);
  first.send(kLater);
  CHECK(rig.until([&] { return rig.later.size() == 1; }));
  second.send(kLater);
  CHECK(rig.until([&] { return rig.later.size() == 2; }));
  CHECK(third.send(kLater).gets("503 Service Unavailable"));
  std::vector<std::unique_ptr<Client>> others;
  for (int i = 0; i < 20; ++i) others.push_back(std::make_unique<Client>(rig));
  CHECK(rig.until([&] { return rig.server->connections() == 6; }));
  rig.later[0]({.body = "it came"});
  rig.later[0]({.body = "once"});
  rig.later[1]({.body = "it came"});
  CHECK(first.gets("it came"));
  CHECK(second.gets("it came"));
  CHECK(first.got.find("once") == std::string::npos);
  CHECK(rig.until([&] { return rig.server->connections() == 4; }));
}

TEST_CASE("an answer that comes after the client or the server is gone has no effect", "[http]") {
  Rig rig;
  {
    Client gone(rig);
    gone.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(rig.until([&] { return rig.later.size() == 1; }));
  }
  rig.later[0]({.body = std::string(1 << 20, 'x')});
  CHECK(rig.until([&] { return rig.server->connections() == 0; }));
  Client client(rig);
  client.send("GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(rig.until([&] { return rig.later.size() == 2; }));
  Client idle(rig);
  CHECK(idle.send(kGet).gets("/a"));
  rig.server.reset();
  rig.later[1]({.body = "late"});
  CHECK(client.is_closed());
  CHECK(idle.is_closed());
  CHECK(client.got.empty());
}

const std::string kStream = "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_CASE("a stream goes on beyond the limits of answers and requests, until its client closes", "[http]") {
  Rig rig({.request_within = 50ms, .idle_max = 50ms, .write_within = 50ms, .linger_max = 50ms});
  {
    Client client(rig);
    CHECK(client.send(kStream).gets("\r\nConnection: close\r\n\r\nfirst\n"));
    CHECK(client.got.find("Content-Length") == std::string::npos);
    const auto later = Clock::now() + 300ms;
    rig.until([&] { return Clock::now() > later; });
    CHECK_FALSE(client.closed);
    rig.server->append_to_streams("second\n");
    rig.server->append_to_streams("third\n");
    CHECK(client.gets("first\nsecond\nthird\n"));
    CHECK(rig.server->streams() == 1);
  }
  CHECK(rig.until([&] { return rig.server->streams() == 0 && rig.server->connections() == 0; }));
}

TEST_CASE("a stream's client that does not read is closed, and the others go on", "[http]") {
  Rig rig({.write_within = 20s, .stream_bytes_max = 100'000});
  Client slow(rig, /*reads=*/false), quick(rig);
  slow.send(kStream);
  quick.send(kStream);
  CHECK(rig.until([&] { return rig.server->streams() == 2; }));
  const std::string part(10'000, 'x');
  int sent = 0;
  CHECK(rig.until([&] {
    rig.server->append_to_streams(part);
    quick.gets(std::string(1, 'x'));
    ++sent;
    return rig.server->streams() == 1;
  }));
  const std::size_t all = static_cast<std::size_t>(sent) * part.size();
  CHECK(rig.until([&] { return quick.got.size() >= all; }));
  CHECK_FALSE(quick.closed);
}

TEST_CASE("streams are limited, and hold no place of other requests", "[http]") {
  Rig rig({.connections_max = 2, .answers_max = 1, .streams_max = 2, .stream_place_min = 1s});
  Client first(rig), second(rig);
  first.send(kStream);
  CHECK(second.send(kStream).gets("first"));
  CHECK(first.gets("first"));
  Client third(rig);
  CHECK(third.send(kStream).gets("503: too many pages of this job are open at a time"));
  Client others[] = {Client(rig), Client(rig), Client(rig)};
  others[2].send(kGet);
  CHECK(others[2].gets("\r\n\r\n/a"));
  rig.server->append_to_streams("more");
  CHECK(first.gets("more"));
  Client head(rig);
  CHECK(head.send("HEAD /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").is_closed());
  std::this_thread::sleep_for(1s);  // the first two may not read: a newcomer gets the place of the older one
  Client later(rig);
  CHECK(later.send(kStream).gets("first"));
  CHECK(first.is_closed());
  CHECK(rig.server->streams() == 2);
}
