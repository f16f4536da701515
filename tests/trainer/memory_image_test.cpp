// A snapshot's value as bytes in memory, and back.
#include "trainer/ddp/snapshot/memory_image.h"

#include <torch/torch.h>

#include "tests/support/test.h"
#include "tests/trainer/snapshot_compare.h"
#include "trainer/ddp/snapshot/damaged.h"
#include "trainer/ddp/snapshot/snapshot_format.h"

namespace {

std::string bytes_of(const c10::IValue& value) {
  Staging staging;
  const MemoryImage image(dense_value(value, staging));
  std::string bytes;
  for (const std::string_view piece : image.pieces()) bytes += piece;
  CHECK(image.bytes() == bytes.size());
  return bytes;
}

Snapshot some_snapshot() {
  Snapshot s;
  const at::Tensor whole = torch::randn({4, 6});
  s.model_state.insert("dense", torch::randn({3, 2}));
  s.model_state.insert("view", whole.narrow(1, 1, 2));
  s.model_state.insert("transposed", whole.t());
  s.model_state.insert("twice", whole);
  s.model_state.insert("again", whole);
  s.model_state.insert("empty", torch::empty({0, 3}));
  s.model_state.insert("count", torch::tensor(std::int64_t{7}));
  s.model_state.insert("half", torch::ones({5}, torch::kBFloat16));
  s.at = {.epochs_run = 2, .step = 30, .samples_seen = 960};
  s.rng = {{torch::randint(256, {16}, torch::kByte), {}}};
  s.world_size = 2;
  s.generation = 3;
  s.metric = 0.25;
  s.bucket_order = {{1, 0}, {2}};
  s.extra = {{"loss", std::numeric_limits<double>::infinity()}, {"list", {1, nullptr, "text", true}}};
  s.own = {nullptr, {{"loss_sum", 1.5}}};
  return s;
}

}  // namespace

TEST_CASE("snapshots that differ in a GPU's generator alone are not the same", "[memory_image]") {
  Snapshot one = some_snapshot();
  one.rng[0].cuda = torch::zeros({16}, torch::kByte);
  Snapshot other = one;
  CHECK(test::differences(one, other) == "");
  other.rng[0].cuda = torch::ones({16}, torch::kByte);
  CHECK(test::differences(one, other) == "RNG[0] ");
}

TEST_CASE("a snapshot from memory has every bit of the one that was kept there", "[memory_image]") {
  const Snapshot before = some_snapshot();
  const Snapshot after = snapshot_of(value_of_image(bytes_of(to_value(before, Kept::in_memory))), "-", "memory");
  CHECK(test::differences(before, after) == "");
  CHECK(after.extra == before.extra);
  CHECK(after.own == before.own);
  CHECK(after.generation == 3);
  CHECK(after.rng.size() == 1);
}

TEST_CASE("equal snapshots have equal bytes, however their tensors lie in memory", "[memory_image]") {
  Snapshot one = some_snapshot(), other = one;
  other.model_state = make_dict();
  for (const auto& item : one.model_state) {
    const std::string name = item.key().toStringRef();
    const at::Tensor tensor = item.value().toTensor();
    other.model_state.insert(name, name == "view" || name == "transposed" ? tensor.contiguous() : tensor);
  }
  CHECK((bytes_of(to_value(one, Kept::in_memory)) == bytes_of(to_value(other, Kept::in_memory))));  // not to be printed
}

TEST_CASE("one rank's part is kept whole", "[memory_image]") {
  const OwnState state{{torch::randint(256, {99}, torch::kByte), {}}, {{"x", std::nan("")}}};
  const OwnState again = own_state_of(value_of_image(bytes_of(to_value(state))), "memory");
  CHECK(test::same_bits(state.rng.cpu, again.rng.cpu));
  CHECK_FALSE(again.rng.cuda.defined());
  CHECK(std::isnan(again.own["x"].get<double>()));
}

TEST_CASE("an image that is cut anywhere is refused", "[memory_image]") {
  const std::string bytes = bytes_of(to_value(some_snapshot(), Kept::in_memory));
  for (std::size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 97) {
    INFO(size);
    CHECK_THROWS_AS(value_of_image(std::string_view(bytes).substr(0, size)), Malformed);
  }
}
