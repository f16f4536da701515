#include "trainer/ddp/group/roster.h"

#include "tests/support/test.h"

namespace {

Member on(const std::string& machine, int gpus = 0, const std::string& visible = "",
          const std::string& backend = "auto") {
  return {.machine = machine, .gpus = gpus, .visible_gpus = visible, .backend = backend};
}

std::vector<int> gpus_of(const Roster& roster) {
  std::vector<int> gpus;
  for (std::size_t rank = 0; rank < roster.size(); ++rank) gpus.push_back(gpu_of(roster, static_cast<int>(rank)));
  return gpus;
}

}  // namespace

TEST_CASE("a roster is read as it was written, and equal members take no place", "[roster]") {
  const Roster roster{on("a", 2), on("b", 2, "0,1"), on("a", 2), on("\xff", 0)};
  const Roster back = roster_from_text(to_text(roster));
  CHECK(Roster(back.begin(), back.begin() + 3) == Roster(roster.begin(), roster.begin() + 3));
  CHECK(to_text(Roster(1000, on("a"))).size() < 3000);
  CHECK_THROWS(roster_from_text("{}"));
  CHECK_THROWS(roster_from_text("no roster"));
}

TEST_CASE("local ranks are those of one machine, wherever the ranks lie", "[roster]") {
  const Roster roster{on("a"), on("b"), on("a"), on("b"), on("b")};
  CHECK(ranks_on_machine_of(roster, 2) == std::vector<int>{0, 2});
  CHECK(ranks_on_machine_of(roster, 1) == std::vector<int>{1, 3, 4});
}

TEST_CASE("nodes of one machine are machines of their own, yet on one", "[roster]") {
  const Roster nodes{on(machine_name("a", 0)), on(machine_name("a", 1))};
  CHECK(ranks_on_machine_of(nodes, 0) == std::vector<int>{0});
  CHECK(on_one_machine(nodes));
  CHECK(on_one_machine({on(machine_name("a", -1))}));
  CHECK_FALSE(on_one_machine({on(machine_name("a", 0)), on(machine_name("b", 0))}));
  CHECK_FALSE(on_one_machine({on("a"), on("b")}));
}

TEST_CASE("each rank has a GPU of its own, or none", "[roster]") {
  CHECK(gpus_of({on("a", 2), on("b", 2), on("a", 2), on("a", 2)}) == std::vector<int>{0, 0, 1, -1});
  // Shown one GPU each, all of them call it 0.
  CHECK(gpus_of({on("a", 1, "0"), on("a", 1, "1")}) == std::vector<int>{0, 0});
}

TEST_CASE("all ranks choose the same backend", "[roster]") {
  CHECK(choose_backend({on("a", 2), on("a", 2)}).nccl);
  CHECK_FALSE(choose_backend({on("a", 1), on("a", 1)}).nccl);
  CHECK_FALSE(choose_backend({on("a", 1), on("b", 0)}).nccl);
  CHECK_FALSE(choose_backend({on("a", 2, "", "gloo")}).nccl);
  CHECK(choose_backend({on("a", 1, "", "nccl")}).nccl);
  CHECK(choose_backend({on("a", 1, "", "nccl"), on("a", 1, "", "nccl"), on("a", 1, "", "nccl")}).problem ==
        "the backend nccl needs a GPU of its own for each rank, and ranks 1 and 2 have none: rank 1 sees 1 for 3 ranks "
        "on "
        "its machine");
  CHECK(choose_backend({on("a", 0, "", "gloo"), on("a", 0, "", "auto")}).problem ==
        "rank 0 asks for the backend gloo, but rank 1 for another one");
}

TEST_CASE("a rank takes the first of its GPUs that no other rank of its machine has, by their names", "[roster]") {
  CHECK(gpus_of({on("a", 1, "x"), on("a", 1, "y"), on("b", 1, "x")}) == std::vector<int>{0, 0, 0});
  CHECK(gpus_of({on("a", 2, "x,y"), on("a", 2, "x,y")}) == std::vector<int>{0, 1});
  CHECK(gpus_of({on("a", 2, "x,y"), on("a", 2, "x,z"), on("a", 2, "x,z")}) == std::vector<int>{0, 1, -1});
  CHECK(choose_backend({on("a", 1, "x", "nccl"), on("a", 1, "x", "nccl")}).lacks_gpus);
}
