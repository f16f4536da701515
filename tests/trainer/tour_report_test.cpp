// What the tours say, before any process runs: the pure half of them.
#include "tests/support/test.h"
#include "tests/trainer/tour_deals.h"
#include "trainer/tour/clock.h"
#include "trainer/tour/operation_report.h"
#include "trainer/tour/timeline.h"
#include "trainer/tour/tours.h"

TEST_CASE("each tour is found by its name and has a line of help", "[tour]") {
  for (const Tour& tour : tours()) {
    CHECK(find_tour(tour.name) == &tour);
    CHECK_THAT(list_of_tours(), Contains("  " + tour.name + " ") && Contains(tour.help.substr(0, tour.help.find(' '))));
  }
  CHECK(find_tour("samples") == nullptr);
}

TEST_CASE("an operation's report shows each rank's values, and a wrong one", "[tour]") {
  const OperationResult good{"[1]", "[12]", "[12]"};
  const OperationReport report =
      operation_report("all_reduce(sum)", "each becomes the sum.", {good, {"[11]", "[12]", "[12]"}});
  CHECK(report.right);
  CHECK(report.text ==
        "all_reduce(sum): each becomes the sum.\n"
        "          before  after\n"
        "  rank 0  [1]     [12]\n"
        "  rank 1  [11]    [12]\n"
        "  Right on every rank.\n");
  const OperationReport wrong =
      operation_report("all_reduce(sum)", "each becomes the sum.", {good, {"[11]", "[11]", "[12]"}});
  CHECK(!wrong.right);
  CHECK_THAT(wrong.text, Contains("\n  WRONG on rank 1: it should be [12].\n") && !Contains("Right"));
}

TEST_CASE("a sample counts as assigned again from its second time in an epoch on", "[tour]") {
  using Marks = std::vector<std::vector<bool>>;
  CHECK(dealt_before({{0, 2, 4}, {1, 3, 0}}) == Marks{{false, false, false}, {false, false, true}});
  CHECK(dealt_before({{0, 1}, {0, 1}}) == Marks{{false, false}, {true, true}});
  CHECK(dealt_before({{5, 6, 7}, {8}}) == Marks{{false, false, false}, {false}});
}

TEST_CASE("the sampler's tour deals right in worlds of any size", "[tour]") {
  for (const int world : {1, 2, 3, 4, 8, 11, 12, 64}) {
    INFO(world << " ranks");
    CHECK(errors_of(deals_of(world)) == std::vector<std::string>{});
  }
}

TEST_CASE("the sampler's tour deals as many samples as are asked for, and shows them in batches", "[tour]") {
  for (const int samples : {1, 2, 7, 100})
    for (const int world : {1, 2, 3}) {
      const auto deals = deals_of(world, samples);
      CHECK(errors_of(deals) == std::vector<std::string>{});
      CHECK(deals[0].shares[0].size() == static_cast<std::size_t>(samples));
      CHECK(picture_of(deals).starts_with("<svg "));
    }
  const Deal deal{.title = "in order", .samples = 5, .expected = 5, .shares = {{0, 2, 4}, {1, 3, 0}}};
  CHECK(batches_text(deal, 2) ==
        "in order, in batches of 2, one for each rank: up to 4 samples a step.\n"
        "          step 1  step 2\n"
        "  rank 0  0 2     4\n"
        "  rank 1  1 3     0*\n");
}

TEST_CASE("the sampler's tour sees a deal that is wrong", "[tour]") {
  auto deals = deals_of(2);
  deals[1].shares[1].pop_back();  // the padding
  deals[2].shares[0][1] = deals[2].shares[0][0];
  deals[5].shares[1][0] = deals[5].shares[0][0];
  CHECK(errors_of(deals) == std::vector<std::string>{
                                "in order: rank 1 has 5 samples where rank 0 has 6.",
                                "shuffled, epoch 0: 10 different samples were assigned, and not 11.",
                                "in order, drop_last: 9 different samples were assigned, and not 10.",
                            });
}

TEST_CASE("two clocks are compared by the fastest round trip", "[tour]") {
  // Theirs is 1000 ms ahead; the way there takes as long as the way back in the fast one only.
  const ClockOffset offset = offset_from({{0, 1009, 10}, {20, 1021, 22}, {30, 1031, 39}});
  CHECK(offset.ms == Approx(-1000));
  CHECK(offset.uncertainty == Approx(1));
}

TEST_CASE("a wait check names the last to arrive and the first to continue", "[tour]") {
  std::vector<Lane> lanes{{{Activity::work, 105, 120}, {Activity::barrier, 120, 161}},
                          {{Activity::work, 100, 160}, {Activity::barrier, 160, 160.5}}};
  shift_to_zero(lanes);
  CHECK(table_of(lanes) ==
        "  ms      work        wait (barrier)\n"
        "  rank 0  5.0 - 20.0  20.0 - 61.0\n"
        "  rank 1  0.0 - 60.0  60.0 - 60.5\n");
  const WaitCheck wait_check = check_wait(lanes, {"barrier", 1}, 0);
  CHECK(wait_check.right);
  CHECK(wait_check.text ==
        "barrier: the last to arrive was rank 1 at 60.0 ms, the first to continue rank 1 at 60.5 ms. No rank continued "
        "before "
        "all had arrived.");
  lanes[0][1].end = 59;
  CHECK(!check_wait(lanes, {"barrier", 1}, 0).right);
  CHECK_THAT(check_wait(lanes, {"barrier", 1}, 0.5).text, Contains("WRONG: it continued before all had arrived."));
  CHECK(check_wait(lanes, {"barrier", 1}, 1.5).right);  // clocks that may differ by so much
}
