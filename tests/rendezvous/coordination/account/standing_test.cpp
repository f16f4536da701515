#include "rendezvous/coordination/account/standing.h"

#include "rendezvous/coordination/inquiry/hang_inquiry.h"
#include "tests/support/test.h"

namespace {

Standing waits(int rank, const std::string& collective = "grads", std::uint64_t step = 41, Duration age = 2100ms) {
  return {
      .rank = rank, .activity = Activity::wait, .collective = collective, .step = step, .age = age, .overdue = true};
}
Standing stands(int rank, Activity activity, Duration age = 2300ms, std::uint64_t step = 41) {
  return {.rank = rank, .activity = activity, .step = step, .age = age, .overdue = true};
}
Standing moves(Standing standing, Duration age = 500ms) {
  standing.overdue = false;
  standing.age = age;
  return standing;
}

std::string found(const std::vector<Standing>& standings) {
  const auto hang = find_hang(standings);
  return hang ? std::to_string(hang->rank) + " " + hang->text : "nobody";
}

}  // namespace

TEST_CASE("the one to blame for a hang is the rank that does not wait", "[hang]") {
  CHECK(found({waits(0), stands(1, Activity::compute), waits(2), waits(3)}) ==
        "1 has computed for 2.3 s, after step 41; ranks 0, 2 and 3 wait for it in grads");
  CHECK(found({stands(0, Activity::load), waits(1)}) ==
        "0 has waited for data for 2.3 s, after step 41; rank 1 waits for it in grads");
  CHECK(found({stands(0, Activity::save, 11s), waits(1, "barrier")}) ==
        "0 has been saving for 11.0 s, after step 41; rank 1 waits for it in barrier");
  Standing stopped = stands(1, Activity::wait);
  stopped.stopped = true;
  CHECK(found({waits(0), stopped}) ==
        "1 has been stopped for 2.3 s, in wait, after step 41; rank 0 waits for it in grads");
  Standing held = stands(1, Activity::load);
  held.held = "request_wait_answer";
  CHECK(found({waits(0), held}) ==
        "1 has been held by the kernel for 2.3 s in request_wait_answer, after step 41; rank 0 waits for it in grads");
}

TEST_CASE("who has waited nearly as long as the first is overdue waits in vain, too", "[hang]") {
  const Duration soon = 1900ms, late = 1500ms;
  CHECK(found({moves(waits(0), soon), stands(1, Activity::compute)}).substr(0, 1) == "1");
  CHECK(found({moves(waits(0), late), stands(1, Activity::compute)}) == "nobody");
  CHECK(found({moves(waits(0), soon), waits(1), waits(2, "metrics")}).substr(0, 1) == "2");
  CHECK(found({waits(0), waits(1), moves(waits(2, "metrics"), soon)}) == "nobody");  // its agent would not end it yet
  CHECK(found({waits(0), waits(1), moves(waits(2, "metrics"), late)}) == "nobody");
  CHECK(found({moves(waits(0), soon), moves(waits(1, "metrics"), soon)}) == "nobody");
}

TEST_CASE("of several that stand still the one furthest behind is to blame", "[hang]") {
  CHECK(found({stands(0, Activity::compute, 9s, 42), stands(1, Activity::load, 3s, 41), waits(2)}).substr(0, 1) == "1");
  CHECK(found({stands(0, Activity::compute, 3s), stands(1, Activity::load, 9s), waits(2)}).substr(0, 1) == "1");
}

TEST_CASE("nobody is to blame who may still do what it does, or whom somebody looks at", "[hang]") {
  CHECK(found({waits(0), moves(stands(1, Activity::save))}) == "nobody");
  CHECK(found({waits(0), moves(stands(1, Activity::compute))}) == "nobody");
  CHECK(found({moves(waits(0)), moves(waits(1, "barrier"))}) == "nobody");
  CHECK(found({waits(0), moves(waits(1, "barrier"))}) == "nobody");  // it has just arrived
  Standing traced = moves(stands(2, Activity::compute));
  traced.paused = true;
  CHECK(found({waits(0), stands(1, Activity::compute), traced}) == "nobody");
  traced.paused = false;
  traced.traced = traced.overdue = true;  // it runs under a debugger
  CHECK(found({waits(0), traced}) == "nobody");
  CHECK(found({waits(0), stands(1, Activity::compute), traced}) != "nobody");
  CHECK(found({moves(waits(0)), stands(1, Activity::compute)}) == "nobody");  // it has just begun to wait
  CHECK(found({waits(0), stands(1, Activity::compute), moves(stands(2, Activity::save))}) == "nobody");
  CHECK(found({}) == "nobody");
}

TEST_CASE("where nobody waits, all may do something long", "[hang]") {
  const auto all = [](Duration age) {
    return std::vector{stands(0, Activity::compute, age), stands(1, Activity::compute, age)};
  };
  CHECK(found(all(59s)) == "nobody");
  CHECK(found(all(60s)) == "0 has computed for 60.0 s, after step 41");
  std::vector<Standing> second_works = all(60s);
  second_works[1].works = true;
  CHECK(found(second_works) == "1 has computed for 60.0 s, after step 41");  // the others may wait for its file
  second_works[0].step = 40;
  CHECK(found(second_works).substr(0, 1) == "0");
  Standing stopped = stands(0, Activity::compute);
  stopped.stopped = true;
  CHECK(found({stopped}) == "0 has been stopped for 2.3 s, in compute, after step 41");
}

TEST_CASE("a rank that left a collective out waits in another one than the rest", "[hang]") {
  CHECK(found({waits(0, "barrier"), waits(1, "grads"), waits(2, "barrier")}) ==
        "1 has waited in grads for 2.1 s, after step 41; ranks 0 and 2 wait in barrier");
  CHECK(found({waits(0, "grads", 41), waits(1, "grads", 43), waits(2, "grads", 41)}) ==
        "1 has waited in grads for 2.1 s, after step 43; ranks 0 and 2 wait in it after step 41");
  CHECK(found({waits(0, "grads", 41), waits(1, "grads", 42), waits(2, "grads", 41)}) == "nobody");  // a late packet
  // Of two ranks it is the one that came later.
  CHECK(found({waits(0, "barrier", 41, 2500ms), waits(1, "grads", 41, 2100ms)}) ==
        "1 has waited in grads for 2.1 s, after step 41; rank 0 waits in barrier");
}

TEST_CASE("where all wait in the same collective, a network may be interrupted", "[hang]") {
  CHECK(found({waits(0), waits(1)}) == "nobody");
  CHECK(found({waits(0, "grads", 41, 61s), waits(1, "grads", 41, 62s)}) ==
        "0 has waited in grads for 61.0 s, after step 41, and so have all others, as when a network is interrupted");
  CHECK(found({waits(0), {.rank = 1, .activity = Activity::ended}}) ==
        "0 has waited in grads for 2.1 s, after step 41; rank 1 has ended");
}

TEST_CASE("a long list of ranks is cut", "[hang]") {
  std::vector<Standing> all{stands(0, Activity::compute)};
  for (int rank = 1; rank < 64; ++rank) all.push_back(waits(rank));
  CHECK(found(all) ==
        "0 has computed for 2.3 s, after step 41; ranks 1, 2, 3, 4, 5, 6, 7, 8 and 55 more wait for it in grads");
}

TEST_CASE("standings of all nodes are asked for, and only compared if they are newer than the question", "[hang]") {
  const TimePoint begin{};
  HangInquiry inquiry({10, 20});
  CHECK_FALSE(inquiry.on(20, {moves(stands(1, Activity::compute))}, begin).ask);
  CHECK(inquiry.on(10, {waits(0)}, begin + 1s).ask);
  CHECK_FALSE(inquiry.on(10, {waits(0)}, begin + 1100ms).ask);  // it has just asked
  const HangInquiry::Next next = inquiry.on(20, {stands(1, Activity::compute)}, begin + 1200ms);
  REQUIRE(next.found);
  CHECK(next.found->rank == 1);
  CHECK(next.node == 20);
  CHECK_FALSE(inquiry.on(20, {stands(1, Activity::compute)}, begin + 1300ms).found);  // its agent knows
  CHECK_FALSE(inquiry.on(30, {stands(2, Activity::compute)}, begin + 5s).ask);        // of another round
}

TEST_CASE("a rank that turns out to wait is taken back, and another one found", "[hang]") {
  const TimePoint begin{};
  HangInquiry inquiry({10});
  CHECK(
      inquiry.on(10, {waits(0, "grads", 41, 2s), stands(1, Activity::compute, 3s), waits(2, "barrier", 41, 3s)}, begin)
          .found->rank == 1);
  const auto next =
      inquiry.on(10, {waits(0, "grads", 41, 2s), waits(1, "barrier", 41, 3s), waits(2, "barrier", 41, 3s)}, begin + 1s);
  REQUIRE(next.found);
  CHECK(next.found->rank == 0);
}

TEST_CASE("who waits for a message is told with its other end", "[hang]") {
  CHECK(found({waits(0, "recv 1"), stands(1, Activity::compute)}) ==
        "1 has computed for 2.3 s, after step 41; rank 0 waits for it in recv from rank 1");
  CHECK(found({waits(0, "send 1"), waits(1, "barrier"), waits(2, "barrier")}).substr(0, 37) ==
        "0 has waited in send to rank 1 for 2.");
}
