#include "agent/faults/fault_table.h"

#include "tests/support/test.h"

namespace {

using Step = FaultTable::Step;
using Deeds = std::vector<FaultTable::Deed>;

constexpr TimePoint kStart{1000s};

}  // namespace

TEST_CASE("a fault that does not last is done at once, and nothing is left to undo", "[chaos]") {
  FaultTable table;
  CHECK(table.begin({FaultKind::kill, 3}, 1, 70, kStart) == Deeds{{Step::kill, 1, 70}});
  CHECK(table.begin({FaultKind::segv, 3}, 1, 70, kStart) == Deeds{{Step::crash, 1, 70}});
  CHECK_FALSE(table.next());
  CHECK(table.end().empty());
}

TEST_CASE("what lasts is undone when its time is over, or at the round's end", "[chaos]") {
  FaultTable table;
  CHECK(table.begin({FaultKind::stop, 0, 2s}, 0, 70, kStart) == Deeds{{Step::stop, 0, 70}});
  CHECK(table.begin({FaultKind::disk, 1, 3s}, 1, 71, kStart) == Deeds{{Step::limit_files, 1, 71}});
  CHECK(table.next() == kStart + 2s);
  CHECK(table.due(kStart + 1999ms).empty());
  CHECK(table.due(kStart + 2s) == Deeds{{Step::go_on, 0, 70}});
  CHECK(table.next() == kStart + 3s);
  CHECK(table.end() == Deeds{{Step::lift_files, 1, 71}});
  CHECK_FALSE(table.next());
}

TEST_CASE("a slow worker runs for a fifth of the time, and goes on at the end", "[chaos]") {
  FaultTable table;
  CHECK(table.begin({FaultKind::slow, 0, 1s}, 0, 70, kStart) == Deeds{{Step::stop, 0, 70}});
  Duration stopped{}, runs{};
  TimePoint since = kStart;
  bool is_stopped = true;
  while (const auto next = table.next()) {
    const Deeds deeds = table.due(*next);
    REQUIRE(deeds.size() <= 1);
    (is_stopped ? stopped : runs) += *next - since;
    since = *next;
    if (!deeds.empty()) is_stopped = deeds[0].step == Step::stop;
  }
  CHECK_FALSE(is_stopped);
  CHECK(since == kStart + 1s);
  CHECK(stopped == 4 * runs);
}

TEST_CASE("a worker that lives on without more memory is killed", "[chaos]") {
  FaultTable table;
  CHECK(table.begin({FaultKind::oom, 0}, 0, 70, kStart) == Deeds{{Step::limit_memory, 0, 70}});
  CHECK(table.due(*table.next()) == Deeds{{Step::kill, 0, 70}, {Step::lift_memory, 0, 70}});
}
