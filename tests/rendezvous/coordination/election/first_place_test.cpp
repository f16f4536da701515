#include "rendezvous/coordination/election/first_place.h"

#include "tests/support/test.h"

namespace {

const RecordId kNone{}, kRound{0, 3};
constexpr TimePoint t0{};

FirstPlace ours(std::size_t places) {
  FirstPlace place(places);
  place.take();
  return place;
}

}  // namespace

TEST_CASE("the agent at the only place begins at once, and again where whom it followed is gone for good",
          "[election]") {
  FirstPlace place = ours(1);
  CHECK(place.should_begin(kNone, t0));
  place.connected();
  place.on_failed_attempt(kNone, t0);
  CHECK_FALSE(place.should_begin(kNone, t0));
  place.on_failed_attempt(kNone, t0 + 29s);
  CHECK_FALSE(place.should_begin(kNone, t0 + 29s));
  CHECK(place.should_begin(kNone, t0 + 30s));
}

TEST_CASE("with several places it begins once nobody at any of them knows of a round", "[election]") {
  FirstPlace place = ours(3);
  for (const RecordId& known : {kNone, kNone, kRound, kNone, kNone}) {
    CHECK_FALSE(place.should_begin(kNone, t0));
    place.on_failed_attempt(known, t0);
  }
  CHECK_FALSE(place.should_begin(kNone, t0));
  place.on_failed_attempt(kNone, t0);
  CHECK(place.should_begin(kNone, t0));
}

TEST_CASE("nobody begins elsewhere, or after a round that it has seen", "[election]") {
  CHECK_FALSE(FirstPlace(1).should_begin(kNone, t0));
  CHECK_FALSE(ours(1).should_begin(kRound, t0 + 100s));
}
