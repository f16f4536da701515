// Snapshots with copies: which slot a write takes, and what a round keeps of them.
#include "rendezvous/memory/copy_memory.h"

#include "tests/support/test.h"

namespace {

using Part = CopyMemory::Part;
using Steps = std::vector<std::uint64_t>;

CopyLabel label(std::uint64_t round, std::uint64_t step, std::uint64_t rank = 0) { return {round, step, rank, 2}; }

int put(CopyMemory& memory, Part part, int place, const CopyLabel& of, const std::string& bytes = "content") {
  const auto slot = memory.begin_write(part, place, of, bytes.size());
  REQUIRE(slot);
  memory.write(*slot, 0, bytes);
  memory.complete(*slot);
  return *slot;
}

Steps steps(const CopyMemory& memory) {
  Steps out;
  for (const auto& kept : memory.kept()) out.push_back(kept.label.step);
  return out;
}

}  // namespace

TEST_CASE("a place keeps the last three snapshots with copies, and a part of one is none", "[copies]") {
  CopyMemory memory = CopyMemory::create(2, 12 << 10);
  CHECK(memory.snapshot_bytes_max() == 1024);
  CHECK_FALSE(memory.wanted());
  for (const std::uint64_t step : {1, 2, 3, 4}) put(memory, Part::own, 1, label(1, step));
  CHECK(memory.wanted());
  CHECK(steps(memory) == Steps{4, 2, 3});
  put(memory, Part::own, 1, label(1, 3), "again");
  CHECK(steps(memory) == Steps{4, 2, 3});
  const auto half = memory.begin_write(Part::own, 1, label(1, 5), 8);
  REQUIRE(half);
  memory.write(*half, 0, "half");
  CHECK(steps(memory) == Steps{4, 3});
  std::string content(5, '\0');
  const auto again = memory.find(label(1, 3));
  REQUIRE(again);
  CHECK(memory.read(*again, 0, content.data(), content.size()));
  CHECK(content == "again");
  CHECK_FALSE(memory.find(label(1, 3, 1)));
  CHECK(memory.has_own(1, label(1, 4)));
  CHECK_FALSE(memory.has_own(0, label(1, 4)));
}

TEST_CASE("a snapshot without room or place is refused", "[copies]") {
  CopyMemory memory = CopyMemory::create(2, 12 << 10);
  CHECK(memory.begin_write(Part::own, 0, label(1, 1), 1024));
  CHECK_FALSE(memory.begin_write(Part::own, 0, label(1, 1), 1025));
  CHECK_FALSE(memory.begin_write(Part::of_neighbour, 2, label(1, 1), 1));
  CHECK_FALSE(memory.begin_write(Part::of_neighbour, -1, label(1, 1), 1));
}

TEST_CASE("a snapshot that is replaced while it is read, or while its copy is on the way, is noticed", "[copies]") {
  CopyMemory memory = CopyMemory::create(1, 60 << 10);
  put(memory, Part::own, 0, label(1, 1));
  const auto first = memory.find(label(1, 1));
  memory.mark_copied(*first);
  CHECK(memory.find(label(1, 1))->copied);
  put(memory, Part::own, 0, label(1, 1));
  char byte = 0;
  CHECK_FALSE(memory.read(*first, 0, &byte, 1));
  CHECK_FALSE(memory.find(label(1, 1))->copied);
  memory.mark_copied(*first);  // its copy has arrived late
  CHECK_FALSE(memory.find(label(1, 1))->copied);
}

TEST_CASE("a round begins with the snapshots of one step and world, and none is at its next node yet", "[copies]") {
  CopyMemory memory = CopyMemory::create(1, 60 << 10);
  for (const std::uint64_t step : {1, 2}) put(memory, Part::own, 0, label(1, step));
  for (const std::uint64_t step : {1, 2, 3}) put(memory, Part::of_neighbour, 0, label(1, step, 1));
  memory.mark_copied(*memory.find(label(1, 2)));
  SECTION("of the same ranks") {
    memory.begin_round({2, 0, 2, true}, CopyMemory::Stamp{1, 2});
    CHECK(steps(memory) == Steps{2, 2});
    CHECK_FALSE(memory.find(label(1, 2))->copied);
  }
  SECTION("where the place has another rank, only the neighbour's slots keep that one's") {
    memory.begin_round({2, 1, 2, true}, CopyMemory::Stamp{1, 2});
    REQUIRE(steps(memory) == Steps{2});
    CHECK(memory.kept().front().label.rank == 1);
  }
  SECTION("of another world size: none") {
    memory.begin_round({2, 0, 3, true}, CopyMemory::Stamp{1, 2});
    CHECK(steps(memory).empty());
  }
  SECTION("without a step that all ranks have: none") {
    memory.begin_round({2, 0, 2, true}, {});
    CHECK(steps(memory).empty());
  }
}

TEST_CASE("what is fetched does not replace what the ranks go on from", "[copies]") {
  CopyMemory memory = CopyMemory::create(1, 60 << 10);
  for (const std::uint64_t step : {1, 2, 3}) put(memory, Part::own, 0, label(1, step, 1));
  const CopyMemory::Stamp kept{1, 1};
  const auto slot = memory.begin_write(Part::own, 0, label(1, 1, 0), 7, kept);
  REQUIRE(slot);
  memory.complete(*slot);
  CHECK(memory.find(label(1, 1, 1)));
  CHECK(memory.find(label(1, 1, 0)));
  CHECK(memory.has_own(0, label(1, 1, 0)));
}
