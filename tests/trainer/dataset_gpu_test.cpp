// Data sets on a GPU, where there is one.
#include <torch/torch.h>

#include "tests/support/test.h"
#include "tests/trainer/generated_data.h"
#include "tests/trainer/gpus_or_skip.h"
#include "trainer/data/dataset.h"
#include "trainer/data/split.h"

namespace {

Images ramp() {
  Images images{.channels = 3, .height = 16, .width = 16, .classes = 10, .labels = {3, 1, 4, 1, 5}};
  images.pixels.resize(768 * 5);
  std::iota(images.pixels.begin(), images.pixels.end(), std::uint8_t{0});  // every byte in every channel
  return images;
}

bool same_on_gpu(const Split& gpu, const Split& cpu) {
  const std::vector<std::int64_t> all = test::up_to(cpu.size());
  const Batch here = cpu.batch(all, 2), there = gpu.batch(torch::tensor(all).cuda(), 2);
  CHECK((there.inputs.is_cuda() && there.targets.is_cuda()));
  return torch::equal(there.inputs.cpu(), here.inputs) && torch::equal(there.targets.cpu(), here.targets);
}

}  // namespace

TEST_CASE("a GPU's batches have the bits of the CPU's, each data set", "[gpu]") {
  if (test::gpus_or_skip() == 0) return;
  const TempFolder folder;
  test::make_cifar10(folder.path(), 40, 10, 1);
  for (const DataSpec& spec : {DataSpec{}, DataSpec{.name = "cifar10", .folder = folder.path(), .normalise = true},
                               DataSpec{.name = "cifar10", .folder = folder.path(), .augment = true, .normalise = true},
                               DataSpec{.name = "text"}, DataSpec{.name = "toy"}}) {
    INFO(spec.name);
    const Dataset gpu = load_dataset(spec, at::kCUDA), cpu = load_dataset(spec, at::kCPU);
    CHECK(same_on_gpu(gpu.train, cpu.train));
    CHECK(same_on_gpu(gpu.test, cpu.test));
  }
}

TEST_CASE("a split kept as bytes, on the GPU or beside it, has the bits of floats", "[gpu]") {
  if (test::gpus_or_skip() == 0) return;
  const Images images = ramp();
  const ImageRule plain, normal{.mean_std = {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}}};
  for (const ImageRule& rule : {plain, normal})
    for (const std::int64_t limit : {0, 768 * 5}) {
      INFO(limit);
      CHECK(same_on_gpu(Split(stored_images(images, rule, at::kCUDA, limit)),
                        Split(stored_images(images, rule, at::kCPU))));
    }
}

TEST_CASE("a loader pins its batches where a GPU is", "[gpu]") {
  if (test::gpus_or_skip() == 0) return;
  const DataSpec spec{.name = "synthetic", .augment = true, .samples = 8};
  const Dataset data = load_dataset(spec, at::kCUDA);
  const Batch expected = load_dataset(spec, at::kCPU).train.batch({0, 1, 2}, 0);
  for (const bool pin : {false, true}) {
    auto batches = make_loader(data.train, {.batch_size = 8, .threads = 1}, pin).epoch({0, 1, 2}, 0);
    const auto batch = batches.next();
    CHECK(batch->inputs.is_pinned() == pin);
    CHECK(batch->targets.is_pinned() == pin);
    const Batch there = data.train.deliver(*batch);
    CHECK((there.inputs.is_cuda() && torch::equal(there.inputs.cpu(), expected.inputs)));
  }
}

TEST_CASE("images beside a GPU are pinned as bytes, and delivered with the bits of the CPU's", "[gpu]") {
  if (test::gpus_or_skip() == 0) return;
  const Images images = ramp();
  const Split gpu(stored_images(images, {}, at::kCUDA, 0)), cpu(stored_images(images, {}, at::kCPU));
  CHECK((gpu.needs_loading() && gpu.index_device().is_cpu()));
  auto batches = make_loader(gpu, {.batch_size = 4, .threads = 1}, /*pin_memory=*/true).epoch({4, 0, 2, 2}, 0);
  const Batch loaded = *batches.next(), delivered = gpu.deliver(loaded), expected = cpu.batch({4, 0, 2, 2}, 0);
  CHECK((loaded.inputs.is_pinned() && loaded.inputs.scalar_type() == torch::kByte));
  CHECK((torch::equal(delivered.inputs.cpu(), expected.inputs) &&
         torch::equal(delivered.targets.cpu(), expected.targets)));
}

TEST_CASE("images of bytes are made on a GPU with the bits to which autocast rounds, channels last", "[gpu]") {
  if (test::gpus_or_skip() == 0) return;
  const Images images = ramp();
  const MeanStd mean_std{{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};
  const Split cpu(augmented_images(images, {.mean_std = mean_std}, at::kCPU));
  for (const auto& [precision, type] : {std::pair{"bf16", at::kBFloat16}, std::pair{"fp16", at::kHalf}}) {
    INFO(precision);
    const Split gpu(
        augmented_images(images, {.mean_std = mean_std, .channels_last = true, .precision = precision}, at::kCUDA));
    const at::Tensor there = gpu.batch({4, 0, 2}, 1).inputs;
    CHECK((there.is_cuda() && there.is_contiguous(at::MemoryFormat::ChannelsLast)));
    CHECK(torch::equal(there.cpu(), cpu.batch({4, 0, 2}, 1).inputs.to(type)));
  }
}
