#include "rendezvous/peer/greeting.h"

#include "tests/support/test.h"

namespace {

const Greeting kClient{PeerRole::client, {"node1", "job", 0x0123456789abcdef}};
const Greeting kServer{PeerRole::server, {"node0", "job", 7}};

}  // namespace

TEST_CASE("a greeting arrives as it was sent, however it is cut, and what follows is left alone", "[greeting]") {
  const std::string bytes = encode(kClient);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK(parse_greeting(bytes.substr(0, size)).state == GreetingState::need_more);
  const ParsedGreeting parsed = parse_greeting(bytes + "more");
  REQUIRE(parsed.state == GreetingState::complete);
  CHECK(parsed.size == bytes.size());
  CHECK(parsed.greeting.role == PeerRole::client);
  CHECK(parsed.greeting.from.name == "node1");
  CHECK(parsed.greeting.from.run_id == "job");
  CHECK(parsed.greeting.from.instance == 0x0123456789abcdef);
}

TEST_CASE("the first wrong byte of a greeting ends it", "[greeting]") {
  CHECK(parse_greeting("GET / HTTP/1.1").complaint == "it is not ddprun");
  CHECK(parse_greeting("dx").complaint == "it is not ddprun");
  CHECK(parse_greeting("\x16\x03\x01").complaint == "it uses a token or certificates, and this node has none");
  CHECK(parse_greeting("ddprun\x02").complaint == "it is another version of ddprun");
  std::string bytes = encode(kClient);
  bytes[7] = 'X';
  CHECK(parse_greeting(bytes).state == GreetingState::bad);
}

TEST_CASE("our own words, ourselves and another job are not greeted back", "[greeting]") {
  CHECK(complaint_about(kClient, kServer).empty());
  CHECK(complaint_about(kServer, kClient).empty());
  CHECK(complaint_about(kClient, {PeerRole::client, {"x", "job", 8}}) == "it echoes this node's own greeting");
  CHECK(complaint_about({PeerRole::client, kServer.from}, kServer).find("it is this agent itself") !=
        std::string::npos);
  CHECK(complaint_about({PeerRole::client, {"node1", "other", 9}}, kServer).find("--rdzv-id") != std::string::npos);
}

TEST_CASE("every agent is an instance of its own, and long texts are cut", "[greeting]") {
  const NodeIdentity one = make_identity("n", "j"), two = make_identity("n", "j");
  CHECK(one.instance != two.instance);
  const NodeIdentity longest = make_identity(std::string(1000, 'n'), std::string(1000, 'j'));
  CHECK(parse_greeting(encode({PeerRole::server, longest})).greeting.from.name == std::string(255, 'n'));
}

TEST_CASE("another job's client is told that it is one, and not which one ours is", "[greeting]") {
  const std::string bytes = encode(without_a_job());
  CHECK(complaint_about(parse_greeting(bytes).greeting, kClient) == "it belongs to another job (--rdzv-id)");
  CHECK(bytes.find("job") == std::string::npos);
}
