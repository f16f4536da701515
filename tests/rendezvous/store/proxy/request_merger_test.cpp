#include "rendezvous/store/proxy/request_merger.h"

#include "tests/support/test.h"

namespace {

Request wait(std::string key) { return {Op::wait, {std::move(key)}}; }
Request get(std::string key) { return {Op::get, {std::move(key)}}; }
Request set(std::string key) { return {Op::set, {std::move(key)}, {"v"}}; }
Request add(std::string key) { return {Op::add, {std::move(key)}, {}, 1}; }

std::string sent(const Request& request, std::uint32_t requesters = 1) {
  return encode_request_head(requesters) + encode(request);
}
std::string cancelled(Ticket ticket) { return encode(LinkCancelWait{ticket}); }

LinkReplyPart reply(LinkReplyKind kind, Ticket first, std::uint32_t tickets = 1, std::string_view bytes = {}) {
  return {{kind, first, tickets, bytes.size()}, bytes, true};
}

using Ids = std::vector<ClientId>;

void submit(RequestMerger& merger, const std::vector<std::pair<ClientId, Request>>& requests) {
  for (const auto& [client, request] : requests) merger.submit(client, request);
}

// What it sends of these.
std::string batch_of(const std::vector<std::pair<ClientId, Request>>& requests) {
  RequestMerger merger;
  submit(merger, requests);
  return merger.take_batch();
}

}  // namespace

TEST_CASE("who waits for the same in one batch is asked for once, and each is answered", "[request_merger]") {
  RequestMerger merger;
  for (ClientId client = 1; client <= 1000; ++client) CHECK(merger.submit(client, wait("k")));
  CHECK(merger.take_batch() == sent(wait("k"), 1000));
  CHECK_FALSE(merger.has_batch());
  CHECK(merger.counts().requests == 1000);
  CHECK(merger.counts().sent == 1);
  const auto parked = merger.on(reply(LinkReplyKind::parked, 1, 1000));
  CHECK(parked.of_bytes.empty());
  CHECK(parked.ready.size() == 1000);  // they may ask for something else meanwhile
  const auto woken = merger.on(reply(LinkReplyKind::answer, 1, 1000, std::string_view("\0", 1)));
  CHECK(woken.of_bytes.size() == 1000);
  CHECK(woken.ready.empty());
  CHECK(merger.unanswered() == 0);
}

TEST_CASE("what was sent is closed: the next askers are asked for anew, when it is answered", "[request_merger]") {
  RequestMerger merger;
  submit(merger, {{1, get("k")}, {2, wait("other")}});
  merger.take_batch();
  submit(merger, {{3, get("k")}, {4, get("k")}});
  CHECK_FALSE(merger.has_batch());
  merger.on(reply(LinkReplyKind::answer, 1, 1, "x"));
  merger.on({{LinkReplyKind::answer, 2, 1, 2}, "x", false});
  CHECK_FALSE(merger.has_batch());
  merger.on(reply(LinkReplyKind::parked, 2));
  CHECK(merger.has_batch());
  CHECK(merger.take_batch() == sent(get("k"), 2));
}

TEST_CASE("what nobody is answered holds up no other", "[request_merger]") {
  RequestMerger merger;
  merger.submit(1, set("a"));
  merger.take_batch();
  merger.submit(2, get("a"));
  CHECK(merger.has_batch());
}

TEST_CASE("different requests stay apart, and in order", "[request_merger]") {
  RequestMerger merger;
  submit(merger, {{1, get("a")}, {2, wait("a")}, {3, get("b")}, {4, get("a")}, {5, {Op::check, {"a"}}}});
  CHECK(merger.take_batch() == sent(get("a"), 2) + sent(wait("a")) + sent(get("b")) + sent({Op::check, {"a"}}));
  CHECK(merger.on(reply(LinkReplyKind::answer, 2, 1, "x")).of_bytes == Ids{4});
  CHECK(merger.on(reply(LinkReplyKind::answer, 4, 1, "x")).of_bytes == Ids{3});
}

TEST_CASE("what changes something is never shared", "[request_merger]") {
  for (const Request& request : {add("k"), Request{Op::queue_pop, {"k"}}, Request{Op::barrier, {"k"}, {}, 2},
                                 Request{Op::delete_key, {"k"}}, Request{Op::compare_set, {"k"}, {"a", "b"}}})
    CHECK(batch_of({{1, request}, {2, request}}) == sent(request) + sent(request));
}

TEST_CASE("nobody joins across a change of what is read", "[request_merger]") {
  CHECK(batch_of({{1, get("k")}, {2, set("other")}, {3, get("k")}, {4, set("k")}, {5, get("k")}, {6, get("k")}}) ==
        sent(get("k"), 2) + sent(set("other")) + sent(set("k")) + sent(get("k"), 2));
}

TEST_CASE("nobody's request overtakes an earlier one of its own", "[request_merger]") {
  // "mine" first, then "k": another client may rely on it.
  CHECK(batch_of({{1, get("k")}, {2, set("mine")}, {2, get("k")}}) ==
        sent(get("k")) + sent(set("mine")) + sent(get("k")));
}

TEST_CASE("a reply in parts reaches all askers in parts, and the last part settles them", "[request_merger]") {
  RequestMerger merger;
  submit(merger, {{1, get("k")}, {2, get("k")}});
  merger.take_batch();
  const LinkReplyHead head{LinkReplyKind::answer, 1, 2, 6};
  const auto first = merger.on({head, "abc", false});
  CHECK(first.of_bytes == Ids{1, 2});
  CHECK(first.ready.empty());
  const auto last = merger.on({head, "def", true});
  CHECK(last.of_bytes == Ids{1, 2});
  CHECK(last.ready == Ids{1, 2});
}

TEST_CASE("an answer without bytes settles, too", "[request_merger]") {
  RequestMerger merger;
  merger.submit(1, {Op::multi_get});
  merger.take_batch();
  CHECK(merger.on(reply(LinkReplyKind::answer, 1)).ready == Ids{1});
}

TEST_CASE("requests without a reply take a ticket, and nobody waits for it", "[request_merger]") {
  RequestMerger merger;
  CHECK_FALSE(merger.submit(1, set("a")));
  CHECK_FALSE(merger.submit(1, set("b")));
  CHECK(merger.submit(1, add("n")));
  merger.take_batch();
  CHECK(merger.unanswered() == 1);
  CHECK(merger.on(reply(LinkReplyKind::answer, 3, 1, "12345678")).ready == Ids{1});
}

TEST_CASE("a second wait ends the first one, and so does a cancellation", "[request_merger]") {
  for (const Request& second : {wait("b"), Request{Op::barrier, {"b"}, {}, 2}, Request{Op::cancel_wait}}) {
    RequestMerger merger;
    merger.submit(1, wait("a"));
    merger.take_batch();
    merger.on(reply(LinkReplyKind::parked, 1));
    merger.submit(1, second);
    CHECK(merger.take_batch() == cancelled(1) + sent(second));
    CHECK(merger.on(reply(LinkReplyKind::cancelled, 1)).ready.empty());
    CHECK(merger.unanswered() == 1);
    CHECK(merger.on(reply(LinkReplyKind::answer, 2, 1, "x")).of_bytes == Ids{1});
  }
}

TEST_CASE("a wake-up that crosses the end of its wait still reaches the client", "[request_merger]") {
  RequestMerger merger;
  merger.submit(1, wait("a"));
  merger.take_batch();
  merger.on(reply(LinkReplyKind::parked, 1));
  merger.submit(1, {Op::cancel_wait});
  const auto crossed = merger.on(reply(LinkReplyKind::answer, 1, 1, "x"));
  CHECK(crossed.of_bytes == Ids{1});
  CHECK(crossed.ready.empty());
  merger.take_batch();
  const auto late = merger.on(reply(LinkReplyKind::cancelled, 1));
  CHECK(late.known);
  CHECK(merger.on(reply(LinkReplyKind::answer, 2, 1, "y")).ready == Ids{1});
}

TEST_CASE("the wait of a client that is gone is ended, whenever that is heard", "[request_merger]") {
  RequestMerger merger;
  submit(merger, {{1, wait("a")}, {2, wait("b")}});
  merger.take_batch();
  merger.on(reply(LinkReplyKind::parked, 1));
  merger.forget(1);
  merger.forget(2);  // not parked yet: asked for when it is
  CHECK(merger.take_batch() == cancelled(1));
  CHECK(merger.on(reply(LinkReplyKind::parked, 2)).ready.empty());
  CHECK(merger.take_batch() == cancelled(2));
  CHECK(merger.on(reply(LinkReplyKind::answer, 2, 1, "x")).of_bytes.empty());
  CHECK(merger.on(reply(LinkReplyKind::cancelled, 1)).known);
  CHECK(merger.unanswered() == 0);
  merger.forget(1);
  CHECK_FALSE(merger.has_batch());
}

TEST_CASE("what a client asked before it was gone still counts", "[request_merger]") {
  RequestMerger merger;
  submit(merger, {{1, set("k")}, {1, add("n")}});
  merger.forget(1);
  CHECK(merger.take_batch() == sent(set("k")) + sent(add("n")));
  const auto receivers = merger.on(reply(LinkReplyKind::answer, 2, 1, "12345678"));
  CHECK(receivers.of_bytes.empty());
  CHECK(receivers.ready.empty());
  CHECK(merger.unanswered() == 0);
}

TEST_CASE("who is hung up on is not asked for more", "[request_merger]") {
  RequestMerger merger;
  merger.submit(1, add("text"));
  merger.take_batch();
  const auto receivers = merger.on(reply(LinkReplyKind::close, 1));
  CHECK(receivers.to_close == Ids{1});
  CHECK(receivers.ready.empty());
}

TEST_CASE("a reply to what nobody asked is found", "[request_merger]") {
  RequestMerger merger;
  merger.submit(1, get("k"));
  CHECK_FALSE(merger.on(reply(LinkReplyKind::answer, 1, 1, "x")).known);  // not sent yet
  merger.take_batch();
  CHECK_FALSE(merger.on(reply(LinkReplyKind::answer, 1, 2, "x")).known);
  CHECK(merger.on(reply(LinkReplyKind::answer, 1, 1, "x")).known);
}
