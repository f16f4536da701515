// The HTTP client, and TLS on both sides, with real connections on loopback, all in one thread.
#include "agent/http/http_client.h"

#include <future>

#include <asio/write.hpp>

#include "agent/http/http_server.h"
#include "agent/http/https.h"
#include "agent/push/pusher.h"
#include "rendezvous/base/error.h"
#include "tests/support/test.h"
#include "tests/support/test_certificate.h"

namespace {

constexpr auto kPostLimit = 20s;

// Answers every connection with the same bytes once it has sent something; `silent`: not at all.
class Stub {
 public:
  explicit Stub(asio::io_context& io, std::string answer)
      : acceptor_(io, {asio::ip::address_v4::loopback(), 0}), answer_(std::move(answer)) {
    accept();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  std::string got;
  int connections = 0;

 private:
  void accept() {
    acceptor_.async_accept([this](const std::error_code& error, asio::ip::tcp::socket socket) {
      if (error) return;
      ++connections;
      sockets_.push_back(std::make_unique<asio::ip::tcp::socket>(std::move(socket)));
      read(*sockets_.back());
      accept();
    });
  }
  void read(asio::ip::tcp::socket& from) {
    from.async_read_some(asio::buffer(bytes_), [this, &from](const std::error_code& error, std::size_t count) {
      if (error) return;
      got.append(bytes_, count);
      std::error_code ignored;
      if (answer_ != "silent") asio::write(from, asio::buffer(answer_), ignored);
      if (answer_.empty()) from.close(ignored);
      if (from.is_open()) read(from);
    });
  }
  asio::ip::tcp::acceptor acceptor_;
  const std::string answer_;
  std::vector<std::unique_ptr<asio::ip::tcp::socket>> sockets_;
  char bytes_[4096];
};

struct Posting {
  asio::io_context io;
  HttpClient client{io};

  PostResult post(const std::string& url, OpenTls tls = {}, Duration within = kPostLimit, std::string json = "{}") {
    std::optional<PostResult> result;
    client.post({std::get<HttpUrl>(parse_url(url)), {}, std::move(json), std::move(tls)}, within,
                [&](const PostResult& came) { result = came; });
    while (!result) io.run_one_for(100ms);
    return *result;
  }
};

std::string place(std::uint16_t port) { return "127.0.0.1:" + std::to_string(port); }

// An HTTPS server of ours; it refuses a body with 413, which is an answer.
struct HttpsRig : Posting {
  explicit HttpsRig(const TestCertificate& shown) {
    server.emplace(
        io, rendezvous::open_listener("127.0.0.1", 0),
        [](const HttpRequest& request, const HttpServer::Answer& answer) {
          answer({.body = request.path == "/big" ? std::string(1 << 20, 'x') : request.path});
        },
        HttpLimits{.request_within = 2s},
        https_server(shown.certificate, shown.key, files, [this](const std::string& line) { said.push_back(line); }));
  }
  PostResult post_to(const std::string& host, const NamedText& authority) {
    return post("https://" + host + ":" + std::to_string(server->port()) + "/x",
                https_client(host, {.authority = authority}));
  }
  std::vector<std::string> said;
  FileThread files{[this](const std::string& line) { said.push_back(line); }};
  std::optional<HttpServer> server;
};

NamedText authority_of(const TestCertificate& of) { return {of.certificate, read_file(of.certificate)}; }

}  // namespace

TEST_CASE("a POST gets its answer's status", "[http][client]") {
  Posting here;
  Stub good(here.io, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
      later(here.io, "HTTP/1.1 503 No\r\nRetry-After: 9\r\n\r\n"),
      elsewhere(here.io, "HTTP/1.1 307 Elsewhere\r\nLocation: http://" + place(good.port()) + "/\r\n\r\n");
  CHECK(here.post("http://" + place(good.port()) + "/v1/metrics").taken());
  CHECK(good.got.ends_with("\r\n\r\n{}"));
  const PostResult refused = here.post("http://localhost:" + std::to_string(later.port()));
  CHECK(refused.status == 503);
  CHECK(refused.retry_after == 9s);
  CHECK(here.post("http://" + place(elsewhere.port())).status == 307);
  CHECK(good.connections == 1);  // no redirect is followed
}

TEST_CASE("what is pushed again and again waits as long as the receiver wants", "[http][client][waits]") {
  asio::io_context io;
  Stub later(io, "HTTP/1.1 503 No\r\nRetry-After: 1\r\n\r\n");
  const HttpUrl url = std::get<HttpUrl>(parse_url("http://" + place(later.port())));
  std::vector<TimePoint> pushes;
  const Pusher pusher(io, {.interval = 5ms, .within = kPostLimit},
                      {.collect =
                           [&](const Pusher::Ready& ready) {
                             pushes.push_back(Clock::now());
                             ready(HttpPost{.url = url, .json = "{}"});
                           },
                       .say = [](const std::string&) {}});
  while (pushes.size() < 2) io.run_one();
  CHECK(pushes[1] - pushes[0] >= 1s);
}

TEST_CASE("a large text arrives whole, and an answer may come before it has", "[http][client]") {
  Posting here;
  Stub early(here.io, "HTTP/1.1 413 Too large\r\n\r\n");
  CHECK(here.post("http://" + place(early.port()), {}, kPostLimit, std::string(32 << 20, 'x')).status == 413);
}

TEST_CASE("what a server does wrong is said, in time", "[http][client]") {
  Posting here;
  Stub silent(here.io, "silent"), closes(here.io, ""), other(here.io, "SSH-2.0-x\r\n");
  CHECK(here.post("http://" + place(silent.port()), {}, 200ms).why == "it has not answered in time");
  CHECK(here.post("http://" + place(closes.port())).why == "it closed the connection without an answer");
  CHECK(here.post("http://" + place(other.port())).why == "its answer is not one of HTTP/1.1");
  CHECK(here.post("https://" + place(other.port()), https_client("127.0.0.1", {})).why == "it does not speak TLS");
  asio::ip::tcp::acceptor closed(here.io, {asio::ip::address_v4::loopback(), 0});
  const auto port = closed.local_endpoint().port();
  closed.close();
  CHECK(here.post("http://" + place(port)).why == "Connection refused");
  CHECK(here.post("http://no-such-host.invalid:1/").status == 0);
}

TEST_CASE("a post that was stopped is not answered", "[http][client]") {
  Posting here;
  Stub silent(here.io, "silent");
  bool came = false;
  here.client.post({std::get<HttpUrl>(parse_url("http://" + place(silent.port()))), {}, std::string(1 << 20, 'x'), {}},
                   kPostLimit, [&](const PostResult&) { came = true; });
  while (silent.got.empty()) here.io.run_one_for(100ms);
  here.client.stop();
  here.io.run_for(50ms);
  CHECK_FALSE(came);
  CHECK_FALSE(here.client.is_busy());
}

TEST_CASE("https reaches only a server whose certificate is an authority's and names it", "[http][client][tls]") {
  const TempFolder folder;
  const TestCertificate good = make_certificate(folder, "good", "DNS:localhost,IP:127.0.0.1"),
                        named = make_certificate(folder, "named", "DNS:example.com");
  HttpsRig rig(good), other(named);
  CHECK(rig.post_to("localhost", authority_of(good)).status == 413);
  CHECK(rig.post_to("127.0.0.1", authority_of(good)).status == 413);
  CHECK(rig.post_to("localhost", authority_of(named)).why.starts_with("its certificate is refused: self"));
  CHECK(other.post_to("localhost", authority_of(named)).why.starts_with("its certificate is refused: hostname mis"));
  CHECK(other.post_to("127.0.0.1", authority_of(named)).why.starts_with("its certificate is refused: IP address mis"));
  const auto system = https_client("localhost", {});
  CHECK(rig.post("https://localhost:" + std::to_string(rig.server->port()), system)
            .why.starts_with("its certificate is refused: self"));
  CHECK(rig.post_to("localhost", {"ca.pem", "nothing"}).why.find("the authority ca.pem cannot be used") !=
        std::string::npos);
}

TEST_CASE("a certificate that is renewed is shown, and one that cannot be used is not", "[http][tls][waits]") {
  const TempFolder folder;
  const TestCertificate first = make_certificate(folder, "first", "DNS:localhost"),
                        second = make_certificate(folder, "second", "DNS:localhost");
  const NamedText old = authority_of(first), renewed = authority_of(second);
  HttpsRig rig(first);
  CHECK(rig.post_to("localhost", old).status == 413);
  fs::rename(second.certificate, first.certificate);
  // The key is another one.
  CHECK(eventually([&] { return rig.post_to("localhost", old).status == 413 && !rig.said.empty(); }, 60s));
  fs::rename(second.key, first.key);
  CHECK(eventually([&] { return rig.post_to("localhost", renewed).status == 413; }, 60s));
  CHECK(rig.said.size() == 1);
  CHECK(rig.said.at(0).find("certificate of the metrics cannot be used") != std::string::npos);
}

TEST_CASE("a file system that does not answer keeps the old certificate, and a renewed one is shown when it does",
          "[http][tls][waits]") {
  const TempFolder folder;
  const TestCertificate first = make_certificate(folder, "first", "DNS:localhost"),
                        second = make_certificate(folder, "second", "DNS:localhost");
  const NamedText old = authority_of(first), renewed = authority_of(second);
  HttpsRig rig(first);
  const TimePoint begun = Clock::now();
  std::promise<void> answers;
  REQUIRE(rig.files.call("the certificate", [over = answers.get_future().share()] { return over.wait(), ""; }));
  fs::rename(second.key, first.key);
  fs::rename(second.certificate, first.certificate);
  while (Clock::now() - begun < 3s) CHECK(rig.post_to("localhost", old).status == 413);
  answers.set_value();
  CHECK(eventually([&] { return rig.post_to("localhost", renewed).status == 413; }, 60s));
  CHECK(rig.said.empty());
}

TEST_CASE("a certificate without its key is refused before the server begins", "[http][tls]") {
  const TempFolder folder;
  const TestCertificate one = make_certificate(folder, "one", "DNS:a"), two = make_certificate(folder, "two", "DNS:a");
  FileThread files([](const std::string&) {});
  CHECK_THROWS_AS(https_server(one.certificate, two.key, files, {}), UsageError);
  CHECK_THROWS_AS(https_server(one.certificate, folder / "none", files, {}), UsageError);
}

TEST_CASE("garbage, silence and plain HTTP at a port of TLS end, and hold up nobody", "[http][tls]") {
  const TempFolder folder;
  const TestCertificate good = make_certificate(folder, "good", "DNS:localhost");
  HttpsRig rig(good);
  std::vector<std::unique_ptr<asio::ip::tcp::socket>> peers;
  for (const std::string& garbage : {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(20'000, 'x'),
                                     std::string("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc", 9), std::string()}) {
    auto& peer = peers.emplace_back(std::make_unique<asio::ip::tcp::socket>(rig.io));
    peer->connect({asio::ip::address_v4::loopback(), rig.server->port()});
    asio::write(*peer, asio::buffer(garbage));
  }
  CHECK(rig.post_to("localhost", authority_of(good)).status == 413);
  // The silent ones after request_within.
  CHECK(eventually([&] { return rig.io.restart(), rig.io.poll(), rig.server->connections() == 0; }, 20s));
}
