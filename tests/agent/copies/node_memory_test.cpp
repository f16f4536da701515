#include "agent/copies/node_memory.h"

#include "tests/support/test.h"

TEST_CASE("a round is confirmed once, when what its ranks lack has come or cannot be had", "[copies]") {
  asio::io_context io;
  std::vector<NodeCopies::LinkHooks> dialed;  // nobody answers
  std::vector<int> confirmed;
  const auto dial = [&](const auto&, NodeCopies::LinkHooks hooks) {
    return dialed.push_back(std::move(hooks)), nullptr;
  };
  const NodeMemory::Hooks hooks{dial, [&](int round) { confirmed.push_back(round); }, [](const auto&) {}, {}};
  const auto lacking = [](int round) {
    return Seat{.round = round, .kept = SeatSnapshot{.round = 1, .step = 7, .from = {{"node1", 29400}}}};
  };
  NodeMemory memory(io, 1 << 20, hooks), none(io, 0, hooks);
  for (NodeMemory* of : {&none, &memory}) {
    of->make(1);
    of->take_seat(lacking(1));
    of->confirm_when_ready(1);
  }
  CHECK(confirmed == std::vector{1});
  dialed.at(0).on_failed("it is gone");
  CHECK(confirmed == std::vector{1, 1});
  memory.take_seat(lacking(2));
  dialed.at(1).on_failed("it is gone");  // before anybody asks
  CHECK(confirmed == std::vector{1, 1});
  memory.confirm_when_ready(2);
  CHECK(confirmed == std::vector{1, 1, 2});
  for (int round : {3, 4}) {
    memory.take_seat(lacking(round));
    memory.confirm_when_ready(round);
  }
  dialed.at(2).on_failed("it is gone");  // too late
  CHECK(confirmed == std::vector{1, 1, 2});
  dialed.at(3).on_failed("it is gone");
  CHECK(confirmed == std::vector{1, 1, 2, 4});
}

TEST_CASE("another number of workers has new memory with the machine's snapshot", "[copies]") {
  asio::io_context io;
  int failed = 0;
  const NodeMemory::Hooks hooks{{}, {}, {}, [&](const auto&) { ++failed; }};
  const auto opened = [](int fd) { return *SnapshotMemory::opened(Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0))); };
  NodeMemory memory(io, 1 << 20, hooks), too_much(io, std::uint64_t{1} << 62, hooks);
  memory.make(1);
  opened(memory.snapshots_fd()).write(0, {.generation = 1, .step = 7}, {"state"});
  memory.change_workers(3);
  CHECK(opened(memory.snapshots_fd()).kept(0).at(0).stamp.step == 7);
  CHECK(opened(memory.snapshots_fd()).kept(3).empty());
  CHECK(memory.copies_fd() >= 0);
  CHECK(failed == 0);
  too_much.make(1);
  CHECK(failed == 1);
  CHECK(too_much.snapshots_fd() == -1);
}

TEST_CASE("memory that is given back is empty, and without an order it stays", "[copies]") {
  asio::io_context io;
  const NodeMemory::Hooks hooks{{}, {}, {}, [](const auto&) {}};
  const auto opened = [](int fd) { return *SnapshotMemory::opened(Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0))); };
  NodeMemory memory(io, 4 << 20, hooks);
  memory.make(2);
  CHECK(memory.bytes_in_use() == 0);
  opened(memory.snapshots_fd()).write(0, {.generation = 1, .step = 7}, {std::string(1 << 20, 'x')});
  CHECK(memory.bytes_in_use() >= 1 << 20);
  CHECK_FALSE(memory.give_back(2));
  CHECK(opened(memory.snapshots_fd()).kept(0).size() == 1);
  memory.give_back_later();
  CHECK(memory.give_back(2));
  CHECK(memory.bytes_in_use() == 0);
  CHECK(opened(memory.snapshots_fd()).kept(0).empty());
  CHECK_FALSE(memory.give_back(2));
}
