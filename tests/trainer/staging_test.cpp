// Copies of a value's tensors in memory that is kept.
#include "trainer/ddp/snapshot/staging.h"

#include <torch/torch.h>

#include "tests/support/test.h"

namespace {

struct Wanted {
  std::vector<std::int64_t> sizes;
  at::ScalarType type = at::kFloat;
};

std::size_t room_for(const std::vector<Wanted>& all) {
  std::size_t room = 0;
  for (const Wanted& one : all) room += StagingArena::room_for(one.sizes, one.type);
  return room;
}

bool owns_its_storage(const at::Tensor& tensor) {
  return tensor.is_contiguous() && tensor.storage_offset() == 0 && tensor.storage().nbytes() == tensor.nbytes();
}

}  // namespace

TEST_CASE("tensors of an arena overlap nowhere, and each is all of its storage", "[staging]") {
  std::vector<Wanted> wanted;
  for (std::int64_t i = 0; i < 300; ++i)
    wanted.push_back({{i % 7, 1 + i * 13}, i % 3 == 0 ? at::kByte : i % 3 == 1 ? at::kHalf : at::kDouble});
  StagingArena arena;
  arena.reserve(room_for(wanted));
  std::vector<at::Tensor> placed;
  for (const Wanted& one : wanted) placed.push_back(arena.place(one.sizes, one.type));
  for (std::size_t i = 0; i < placed.size(); ++i) placed[i].fill_(static_cast<int>(i % 100));
  for (std::size_t i = 0; i < placed.size(); ++i) {
    INFO(i);
    CHECK(owns_its_storage(placed[i]));
    CHECK(placed[i].eq(static_cast<int>(i % 100)).all().item<bool>());
  }
}

TEST_CASE("an arena has as much memory as is needed, and keeps it for the next copies", "[staging]") {
  const std::size_t room = room_for({{{10}}, {{1 << 18}}});
  CHECK(room == 64 + (1 << 20));
  StagingArena arena;
  arena.reserve(room);
  CHECK(arena.bytes() == room);
  const void* first = arena.place({10}, at::kFloat).data_ptr();
  arena.place({1 << 18}, at::kFloat);
  arena.reserve(room);
  CHECK(arena.place({10}, at::kFloat).data_ptr() == first);
  arena.reserve(64);
  CHECK(arena.bytes() == 64);
  arena.reserve(0);
  CHECK(arena.bytes() == 0);
}

TEST_CASE("a tensor outlives its arena, and what the arena gives up", "[staging]") {
  at::Tensor placed, later;
  {
    StagingArena arena;
    arena.reserve(room_for({{{1000}}}));
    placed = arena.place({1000}, at::kFloat).fill_(3);
    arena.reserve(room_for({{{2000}}}));
    later = arena.place({2000}, at::kFloat).fill_(4);
  }
  CHECK((placed.eq(3).all().item<bool>() && later.eq(4).all().item<bool>()));
}

TEST_CASE("the copies on the CPU are the buffers of the last time", "[staging]") {
  const at::Tensor tensor = torch::rand({100, 100});
  Staging staging;
  const at::Tensor first = staging.copy(tensor).toTensor();
  CHECK((torch::equal(first, tensor) && first.data_ptr() != tensor.data_ptr()));
  CHECK(staging.copy(tensor).toTensor().data_ptr() == first.data_ptr());
}
