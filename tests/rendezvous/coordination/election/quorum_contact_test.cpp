#include "rendezvous/coordination/election/quorum_contact.h"

#include "tests/support/test.h"

namespace {

const TimePoint t0{};

}  // namespace

TEST_CASE("a coordinator was in contact with a quorum when enough had answered what it had said by then",
          "[election]") {
  QuorumContact contact;
  contact.answered(2, t0 + 1s);
  contact.answered(3, t0 + 2s);
  contact.answered(4, t0 + 3s);
  contact.answered(5, t0 + 4s);
  const TimePoint now = t0 + 9s;
  CHECK(contact.latest({}, 1, now) == now);
  CHECK(contact.latest({{1, {1}}}, 1, now) == now);
  CHECK(contact.latest({{1, {1, 2, 3, 4, 5}}}, 1, now) == t0 + 3s);  // itself, 5 and 4
  CHECK(contact.latest({{1, {1, 2, 3, 4}}}, 1, now) == t0 + 3s);     // half, it among them
  CHECK(contact.latest({{9, {1, 2, 3, 4}}}, 1, now) == t0 + 2s);     // who coordinated that round is not there
  CHECK(contact.latest({{1, {1, 2}}}, 1, now) == now);
  CHECK(contact.latest({{2, {1, 2}}}, 1, now) == t0 + 1s);
  CHECK(contact.latest({{1, {1, 2, 3, 4, 5}}, {1, {1, 2, 3}}}, 1, now) == t0 + 2s);  // of each
}

TEST_CASE("who has never answered is not counted, and an answer that comes late makes nobody older", "[election]") {
  QuorumContact contact;
  CHECK(contact.latest({{1, {1, 2, 3}}}, 1, t0 + 9s) < t0);
  contact.answered(2, t0 + 5s);
  contact.answered(2, t0 + 4s);
  CHECK(contact.latest({{1, {1, 2, 3}}}, 1, t0 + 9s) == t0 + 5s);
}
