// Copies of a value's tensors in memory that is kept.
#include "trainer/ddp/snapshot/staging.h"

#include <torch/torch.h>

#include "tests/support/catch.h"

using namespace ddprun;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

at::Tensor place(StagingArena& arena, std::vector<std::int64_t> sizes, at::ScalarType type = at::kFloat) {
  return arena.place(sizes, type, /*pinned=*/false);
}

bool owns_its_storage(const at::Tensor& tensor) {
  return tensor.is_contiguous() && tensor.storage_offset() == 0 && tensor.storage().nbytes() == tensor.nbytes();
}

}  // namespace

TEST_CASE("tensors of an arena overlap nowhere, and each is all of its storage", "[staging]") {
  StagingArena arena;
  std::vector<at::Tensor> placed;
  for (std::int64_t i = 0; i < 300; ++i)
    placed.push_back(place(arena, {i % 7, 1 + i * 13}, i % 3 == 0 ? at::kByte : i % 3 == 1 ? at::kHalf : at::kDouble));
  for (std::size_t i = 0; i < placed.size(); ++i) placed[i].fill_(static_cast<int>(i % 100));
  for (std::size_t i = 0; i < placed.size(); ++i) {
    INFO(i);
    CHECK(owns_its_storage(placed[i]));
    CHECK(placed[i].eq(static_cast<int>(i % 100)).all().item<bool>());
  }
}

TEST_CASE("an arena keeps its memory for the next copies, and grows by what is missing", "[staging]") {
  StagingArena arena;
  const void* first = place(arena, {10}).data_ptr();
  CHECK(arena.bytes() == kMiB);
  place(arena, {1 << 18});  // a MiB, which does not fit beside the first
  CHECK(arena.bytes() == 2 * kMiB);
  arena.reuse();
  CHECK(place(arena, {20}).data_ptr() == first);
  place(arena, {1 << 18});
  CHECK(arena.bytes() == 2 * kMiB);
  place(arena, {5 << 18});  // larger than all so far
  CHECK(arena.bytes() == 7 * kMiB);
}

TEST_CASE("a tensor outlives its arena", "[staging]") {
  at::Tensor placed;
  {
    StagingArena arena;
    placed = place(arena, {1000}).fill_(3);
  }
  CHECK(placed.eq(3).all().item<bool>());
}

TEST_CASE("the copies on the CPU are the buffers of the last time", "[staging]") {
  const at::Tensor tensor = torch::rand({100, 100});
  Staging staging;
  const at::Tensor first = staging.copy(tensor).toTensor();
  CHECK((torch::equal(first, tensor) && first.data_ptr() != tensor.data_ptr()));
  CHECK(staging.copy(tensor).toTensor().data_ptr() == first.data_ptr());
}
