// Dialing an agent that listens on loopback, and what does not answer as one; all in one loop.
#include "rendezvous/peer/dialer.h"

#include <asio/io_context.hpp>

#include "rendezvous/base/fd.h"
#include "rendezvous/peer/peer_listener.h"
#include "tests/support/test.h"

namespace {

constexpr auto kLimit = 20s;  // for whatever a test waits for

PeerTrust trust(const std::string& name, const std::string& token = "00112233445566778899aabbccddeeff") {
  const Credentials credentials = std::get<Token>(Token::parse(token));
  return {std::make_shared<TlsContext>(credentials, "job"), make_identity(name, "job"), {}};
}

struct Rig {
  // The loop runs until the condition holds.
  template <class Condition>
  bool until(Condition condition) {
    for (const auto end = Clock::now() + kLimit; !condition();) {
      if (Clock::now() > end) return false;
      io.restart();
      io.run_one_for(100ms);
    }
    return true;
  }
  bool until_failed() {
    return until([&] { return failure.has_value(); });
  }
  ControlAddress agent() const { return {"127.0.0.1", listener.port()}; }
  ControlAddress silent() const { return {"127.0.0.1", deaf.port}; }

  asio::io_context io;
  std::deque<PeerConnection> peers;
  PeerListener listener{io, open_listener("127.0.0.1", 0), trust("node0"),
                        PeerListener::Hooks{[this](PeerConnection peer) { peers.push_back(std::move(peer)); },
                                            [](const std::string&) {}}};
  const Listening deaf = open_listener("127.0.0.1", 0);  // the kernel connects, nobody accepts
  const Fd owner{deaf.fd};

  PeerTrust own = trust("node1");
  std::optional<PeerConnection> connection;
  std::optional<Dialer::Failure> failure;
  std::optional<Dialer> dialer{std::in_place, io, nullptr, own,
                               Dialer::Hooks{[this](PeerConnection peer) { connection.emplace(std::move(peer)); },
                                             [this](const Dialer::Failure& failed) { failure = failed; }}};
};

}  // namespace

TEST_CASE("a dialer hands over an authenticated connection, after its pause", "[dialer]") {
  Rig rig;
  const auto begin = Clock::now();
  rig.dialer->start({rig.agent(), 30ms});
  REQUIRE(rig.until([&] { return rig.connection && !rig.peers.empty(); }));
  CHECK(Clock::now() - begin >= 30ms);
  CHECK(rig.connection->peer().name == "node0");
  CHECK(rig.peers.front().peer().name == "node1");
  CHECK_FALSE(rig.failure);
}

TEST_CASE("who connects but says nothing, or nothing further, does not answer", "[dialer][waits]") {
  const bool authenticates = GENERATE(false, true);
  Rig rig;
  rig.dialer->start({authenticates ? rig.agent() : rig.silent(), {}, Clock::now() + (authenticates ? 2s : 200ms)});
  REQUIRE(rig.until_failed());
  CHECK(rig.failure->why == "it does not answer");
  CHECK_FALSE(rig.failure->refused);
  CHECK(rig.connection.has_value() == authenticates);
}

TEST_CASE("a dialer says whether it was refused, and by whom", "[dialer]") {
  Rig rig;
  rig.own = trust("node1", "ffeeddccbbaa99887766554433221100");
  rig.dialer->start({rig.agent()});
  REQUIRE(rig.until_failed());
  CHECK(rig.failure->why == "it has another token, or belongs to another job (--rdzv-id)");
  CHECK_FALSE(rig.failure->refused);
  rig.failure.reset();
  const ControlAddress closed = [] {
    const Listening listening = open_listener("127.0.0.1", 0);
    const Fd owner(listening.fd);
    return ControlAddress{"127.0.0.1", listening.port};
  }();
  rig.dialer->start({closed});
  REQUIRE(rig.until_failed());
  CHECK(rig.failure->why == "Connection refused");
  CHECK(rig.failure->refused);
}

TEST_CASE("nothing comes of a dialer that was stopped, in its pause or at work", "[dialer]") {
  const Duration pause = GENERATE(10ms, 0ms);
  Rig rig;
  rig.dialer->start({rig.silent(), pause, Clock::now() + 20ms});
  rig.dialer->stop();
  rig.io.run_for(60ms);
  CHECK_FALSE(rig.connection);
  CHECK_FALSE(rig.failure);
}

TEST_CASE("a dialer may end inside its own hooks", "[dialer]") {
  const bool fails = GENERATE(false, true);
  Rig rig;
  bool ended = false;
  const auto end = [&] {
    rig.dialer.reset();
    ended = true;
  };
  rig.dialer.emplace(rig.io, nullptr, rig.own,
                     Dialer::Hooks{[&](const PeerConnection&) { end(); }, [&](const Dialer::Failure&) { end(); }});
  rig.dialer->start({fails ? rig.silent() : rig.agent(), {}, Clock::now() + (fails ? 20ms : 20'000ms)});
  CHECK(rig.until([&] { return ended; }));
}
