#include "rendezvous/store/link_protocol.h"

#include "tests/rendezvous/store/link_streams.h"
#include "tests/rendezvous/store/random_requests.h"
#include "tests/support/test.h"

namespace {

std::string ask(const Request& request, std::uint32_t requesters = 1) {
  return encode_request_head(requesters) + encode(request);
}

std::string requests_in_words(std::string_view all, std::size_t step) {
  const auto [bytes, bad] = requests_in(all, step);
  return bad ? bytes + "bad" : bytes;
}

// The same of replies: heads, their bytes, and where each ends.
std::string replies_in(std::string_view all, std::size_t step) {
  LinkReplyReader reader;
  std::string found, bytes;
  while (!all.empty() && !reader.bad()) {
    std::string_view piece = all.substr(0, step);
    all.remove_prefix(piece.size());
    while (const auto part = reader.next(piece)) {
      bytes += part->bytes;
      if (!part->last) continue;
      found += encode(part->head) + std::exchange(bytes, {});
    }
  }
  return found + (reader.bad() ? "bad" : "");
}

}  // namespace

TEST_CASE("requests on a link are read as they were written, however they are cut", "[link_protocol]") {
  RandomRequests random(5);
  std::string all;
  for (int i = 0; i < 500; ++i) {
    const Request request = random.next();
    all += ask(request, can_be_shared(request.op) ? 1 + static_cast<std::uint32_t>(random.below(1000)) : 1);
    if (i % 7 == 0) all += encode(LinkCancelWait{1 + random.below(kTicketMax)});
  }
  for (const std::size_t step : {std::size_t{1}, std::size_t{2}, std::size_t{13}, std::size_t{4096}, all.size()})
    CHECK(requests_in_words(all, step) == all);
}

TEST_CASE("what is no request on a link is bad", "[link_protocol]") {
  const Request get{Op::get, {"k"}}, add{Op::add, {"k"}, {}, 1};
  CHECK(requests_in_words("B", 1) == "bad");
  CHECK(requests_in_words(ask(get, 0), 1000) == "bad");
  CHECK(requests_in_words(ask(get, kRequestersMax), 1000) == ask(get, kRequestersMax));
  CHECK(requests_in_words(ask(get, kRequestersMax + 1), 1000) == "bad");
  CHECK(requests_in_words(ask(add, 2), 1000) == "bad");
  CHECK(requests_in_words(ask({Op::validate, {}, {}, kMagic}), 1000) == "bad");
  CHECK(requests_in_words(encode_request_head(1) + "\x7f", 1000) == "bad");
  CHECK(requests_in_words(encode(LinkCancelWait{0}), 1000) == "bad");
  CHECK(requests_in_words(encode(LinkCancelWait{kTicketMax + 1}), 1000) == "bad");
}

TEST_CASE("replies on a link are read as they were written, however they are cut", "[link_protocol]") {
  const std::string all =
      encode(LinkReplyHead{LinkReplyKind::answer, 1, 3, 5}) + "hello" + encode({LinkReplyKind::parked, 4, 1, 0}) +
      encode({LinkReplyKind::answer, 5, 1, 0}) + encode({LinkReplyKind::close, kTicketMax, 1, 0}) +
      encode({LinkReplyKind::cancelled, 7, kRequestersMax, 0}) + encode({LinkReplyKind::answer, 8, 1, 1}) + "x";
  for (const std::size_t step : {std::size_t{1}, std::size_t{2}, std::size_t{22}, all.size()})
    CHECK(replies_in(all, step) == all);
}

TEST_CASE("a part of a reply is handed on before the rest has come", "[link_protocol]") {
  LinkReplyReader reader;
  const std::string head = encode({LinkReplyKind::answer, 9, 2, 1000});
  std::string_view bytes = head;
  CHECK_FALSE(reader.next(bytes));
  const std::string some(10, 'v');
  bytes = some;
  const auto part = reader.next(bytes);
  REQUIRE(part);
  CHECK(part->bytes == some);
  CHECK(part->head.first == 9);
  CHECK_FALSE(part->last);
  CHECK(bytes.empty());
}

TEST_CASE("what is no reply on a link is bad", "[link_protocol]") {
  CHECK(replies_in(encode({static_cast<LinkReplyKind>('x'), 1, 1, 0}), 100) == "bad");
  CHECK(replies_in(encode({LinkReplyKind::answer, 0, 1, 0}), 100) == "bad");
  CHECK(replies_in(encode({LinkReplyKind::answer, 1, 0, 0}), 100) == "bad");
  CHECK(replies_in(encode({LinkReplyKind::answer, 1, kRequestersMax + 1, 0}), 100) == "bad");
  CHECK(replies_in(encode({LinkReplyKind::answer, kTicketMax, 2, 0}), 100) == "bad");
  CHECK(replies_in(encode({LinkReplyKind::answer, 1, 1, kLinkReplyBytesMax + 1}), 100) == "bad");
  CHECK(replies_in(encode({LinkReplyKind::parked, 1, 1, 1}), 100) == "bad");
}

TEST_CASE("a reply's size is known before it is written", "[link_protocol]") {
  const Value small = std::make_shared<const std::string>("v"), none = std::make_shared<const std::string>(),
              large = std::make_shared<const std::string>(100'000, 'v');
  for (const Reply& reply : {Reply(Flag::ready), Reply(Number{-1}), Reply(Nonce{7}), Reply(Values{}),
                             Reply(Values{3, {small, none, large}}), Reply(Values{{}, {large, small}})})
    CHECK(wire_size(reply) == bytes_of(reply).size());
}
