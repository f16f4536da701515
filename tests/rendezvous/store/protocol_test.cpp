#include "rendezvous/store/protocol.h"

#include "rendezvous/store/request_parser.h"
#include "rendezvous/store/store.h"
#include "tests/rendezvous/store/random_requests.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

std::string u64(std::uint64_t n) { return {reinterpret_cast<const char*>(&n), sizeof n}; }
std::string op(Op op) { return std::string(1, static_cast<char>(op)); }

const std::string kHello = encode({Op::validate, {}, {}, kMagic});

RequestParser greeted() {
  RequestParser parser;
  std::string_view hello = kHello;
  REQUIRE(parser.feed(hello) == Parsed::need_more);
  REQUIRE(parser.validated());
  return parser;
}

Parsed feed(std::string_view bytes) {
  RequestParser parser = greeted();
  return parser.feed(bytes);
}

// Everything `stream` says, cut into pieces of at most `piece_max` bytes.
std::vector<Request> parse_in_pieces(const std::string& stream, RandomRequests& random, std::size_t piece_max) {
  RequestParser parser;
  std::vector<Request> requests;
  std::string_view left = stream;
  while (!left.empty()) {
    std::string_view piece = left.substr(0, 1 + random.below(piece_max));
    left.remove_prefix(piece.size());
    Parsed parsed;
    while ((parsed = parser.feed(piece)) == Parsed::complete) requests.push_back(parser.take());
    REQUIRE(parsed == Parsed::need_more);
    REQUIRE(piece.empty());
  }
  return requests;
}

}  // namespace

TEST_CASE("requests have the bytes that PyTorch's client sends", "[protocol]") {
  CHECK(kHello == std::string("\x00\xce\xf7\x85\x3c", 5));
  CHECK(encode({Op::ping, {}, {}, 0x04030201}) == "\x0d\x01\x02\x03\x04");
  CHECK(encode({Op::set, {"/k"}, {"v"}}) == "\x01" + u64(2) + "/k" + u64(1) + "v");
  CHECK(encode({Op::compare_set, {"/c"}, {"", "a"}}) == "\x02" + u64(2) + "/c" + u64(0) + u64(1) + "a");
  CHECK(encode({Op::add, {"/n"}, {}, -7}) == "\x04" + u64(2) + "/n" + u64(static_cast<std::uint64_t>(-7)));
  CHECK(encode({Op::check, {"/k", "/zz"}}) == "\x05" + u64(2) + u64(2) + "/k" + u64(3) + "/zz");
  CHECK(encode({Op::multi_set, {"a", "b"}, {"1", ""}}) ==
        "\x0b" + u64(2) + u64(1) + "a" + u64(1) + "1" + u64(1) + "b" + u64(0));
  CHECK(encode({Op::cancel_wait}) == "\x0c");
  CHECK(encode({Op::barrier, {"b"}, {}, 3}) == "\x12" + u64(1) + "b" + u64(3));
}

TEST_CASE("a stream means the same however it is cut", "[protocol]") {
  const auto seed = GENERATE(range(1, 60));
  RandomRequests random(static_cast<std::uint64_t>(seed));
  std::vector<Request> said;
  std::string stream = kHello;
  for (int i = 0; i < 100; ++i) stream += encode(said.emplace_back(random.next()));
  CHECK(parse_in_pieces(stream, random, 1) == said);
  CHECK(parse_in_pieces(stream, random, 7) == said);
  CHECK(parse_in_pieces(stream, random, stream.size()) == said);
}

TEST_CASE("nothing is served before the right first word, and it is said once", "[protocol]") {
  for (const std::string& first :
       {encode({Op::validate, {}, {}, kMagic ^ 1}), encode({Op::set, {"k"}, {"v"}}),
        std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01\x02"), op(Op::num_keys)}) {
    RequestParser parser;
    std::string_view bytes = first;
    CHECK(parser.feed(bytes) == Parsed::bad);
    CHECK_FALSE(parser.validated());
  }
  CHECK(feed(kHello) == Parsed::bad);
}

TEST_CASE("bad stays bad", "[protocol]") {
  RequestParser parser = greeted();
  std::string_view bad = "\x7f", good = "\x07";
  CHECK(parser.feed(bad) == Parsed::bad);
  CHECK(parser.feed(good) == Parsed::bad);
}

TEST_CASE("an unknown op is bad", "[protocol]") {
  for (int code = kOpCount; code < 256; ++code) CHECK(feed(std::string(1, static_cast<char>(code))) == Parsed::bad);
}

TEST_CASE("what is too large is refused on its length alone", "[protocol]") {
  const std::string key = u64(1) + "k";
  CHECK(feed(op(Op::get) + u64(kKeyBytesMax)) == Parsed::need_more);
  CHECK(feed(op(Op::get) + u64(kKeyBytesMax + 1)) == Parsed::bad);
  CHECK(feed(op(Op::get) + u64(~0ull)) == Parsed::bad);
  CHECK(feed(op(Op::set) + key + u64(kValueBytesMax)) == Parsed::need_more);
  CHECK(feed(op(Op::set) + key + u64(kValueBytesMax + 1)) == Parsed::bad);
  CHECK(feed(op(Op::compare_set) + key + u64(0) + u64(kValueBytesMax + 1)) == Parsed::bad);
  for (const Op counted : {Op::check, Op::wait, Op::multi_get, Op::multi_set}) {
    CHECK(feed(op(counted) + u64(kCountMax)) == Parsed::need_more);
    CHECK(feed(op(counted) + u64(kCountMax + 1)) == Parsed::bad);
    CHECK(feed(op(counted) + u64(~0ull)) == Parsed::bad);
  }
}

TEST_CASE("what is exactly as large as allowed is taken", "[protocol]") {
  const Request request{Op::set, {std::string(kKeyBytesMax, 'k')}, {std::string(kValueBytesMax, 'v')}};
  const std::string bytes = encode(request);
  std::string_view rest = bytes;
  RequestParser parser = greeted();
  REQUIRE(parser.feed(rest) == Parsed::complete);
  CHECK((parser.take() == request));
}

TEST_CASE("a request of many parts is refused once they announce too much together", "[protocol]") {
  RequestParser parser = greeted();
  const std::string head = op(Op::multi_set) + u64(1000);
  const std::string pair = u64(1) + "k" + u64(kValueBytesMax) + std::string(kValueBytesMax, 'v');
  std::string_view bytes = head;
  REQUIRE(parser.feed(bytes) == Parsed::need_more);
  std::uint64_t taken = 0;
  for (bytes = pair; parser.feed(bytes) == Parsed::need_more; bytes = pair) taken += pair.size();
  CHECK(taken <= kRequestBytesMax);
  CHECK(taken + pair.size() > kRequestBytesMax);
}

TEST_CASE("a large request in small pieces costs no more than its bytes", "[protocol][not-tsan]") {
  const Request check{Op::check, std::vector<std::string>(kCountMax, "/key")};
  const Request compare_set{
      Op::compare_set, {"k"}, {std::string(kValueBytesMax, 'a'), std::string(kValueBytesMax, 'b')}};
  const std::string stream = kHello + encode(check) + encode(compare_set);
  RandomRequests random(1);
  const auto start = std::chrono::steady_clock::now();
  CHECK(parse_in_pieces(stream, random, 4096).size() == 2);
  CHECK(std::chrono::steady_clock::now() - start < 3s);  // 0.05 s; from the start at every piece it would be minutes
}

TEST_CASE("neither random nor bent bytes upset parser and store", "[protocol][fuzz]") {
  RandomRequests random(7);
  Store store;
  std::size_t served = 0;
  const int streams = test::often(200'000);
  for (int i = 0; i < streams; ++i) {
    std::string stream = random.below(8) ? kHello : "";
    if (random.below(4) == 0)
      stream += random.bytes(random.below(60));
    else
      for (std::uint64_t n = random.below(5); n > 0; --n) stream += encode(random.next());
    for (std::uint64_t n = random.below(3); n > 0 && !stream.empty(); --n)
      stream[random.below(stream.size())] = static_cast<char>(random.below(256));
    const ClientId client = random.below(50);
    RequestParser parser;
    std::string_view bytes = stream;
    while (parser.feed(bytes) == Parsed::complete) {
      for (const Answer& answer : store.on(client, parser.take())) served += answer.to < 50;
    }
    if (random.below(2)) store.forget(client);
  }
  for (ClientId client = 0; client < 50; ++client) store.forget(client);
  CHECK(served > static_cast<std::size_t>(streams) / 2);
  CHECK_FALSE(store.anyone_waits());
}
