#include "trainer/data/dataset.h"

#include <torch/torch.h>

#include "ddprun/sampler.h"
#include "rendezvous/base/error.h"
#include "tests/support/test.h"
#include "tests/trainer/generated_data.h"
#include "trainer/data/cifar10.h"
#include "trainer/data/image_sets.h"
#include "trainer/data/image_shards.h"
#include "trainer/data/split.h"

namespace {

Batch whole(const Split& split, std::int64_t epoch = 0) { return split.batch(test::up_to(split.size()), epoch); }

bool same(const Batch& a, const Batch& b) {
  return torch::equal(a.inputs, b.inputs) && torch::equal(a.targets, b.targets);
}

at::Tensor pixels_of(const Images& images) {
  return torch::tensor(images.pixels, torch::kUInt8)
      .view({images.size(), images.channels, images.height, images.width});
}

const MeanStd kCifar{{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};

// Five images whose bytes count on.
Images ramp(std::int64_t side) {
  Images images{.channels = 3, .height = side, .width = side, .classes = 10, .labels = {3, 1, 4, 1, 5}};
  images.pixels.resize(static_cast<std::size_t>(5 * images.image_bytes()));
  std::iota(images.pixels.begin(), images.pixels.end(), std::uint8_t{0});
  return images;
}

}  // namespace

TEST_CASE("the digits are floats from 0 to 1, bit for bit what PyTorch divides", "[dataset]") {
  const Dataset data = load_dataset({}, at::kCPU);
  CHECK(data.task == Task::classify);
  CHECK(std::vector<std::int64_t>{data.channels, data.height, data.width, data.classes} ==
        std::vector<std::int64_t>{1, 8, 8, 10});
  CHECK(data.test.size() == 297);
  const Batch batch = whole(data.train);
  CHECK(batch.inputs.sizes() == at::IntArrayRef{1500, 1, 8, 8});
  CHECK(batch.inputs.scalar_type() == torch::kFloat);
  CHECK(batch.inputs.max().item<float>() == 1);
  CHECK(batch.targets.scalar_type() == torch::kLong);
  CHECK(torch::equal(batch.inputs, (batch.inputs * 255).round().to(torch::kUInt8).to(torch::kFloat).div_(255)));
}

TEST_CASE("MNIST and CIFAR-10 are read from the folder that is named", "[dataset]") {
  const TempFolder folder;
  test::make_mnist(folder / "mnist", 7, 3, 1);
  test::make_cifar10(folder / "cifar-10-batches-bin", 12, 5, 1, 2);
  const Dataset mnist = load_dataset({.name = "mnist", .folder = folder / "mnist"}, at::kCPU);
  CHECK(whole(mnist.train).inputs.sizes() == at::IntArrayRef{7, 1, 28, 28});
  CHECK(mnist.classes == 10);
  const Dataset cifar = load_dataset({.name = "cifar10", .folder = folder.path()}, at::kCPU);
  CHECK(cifar.channels == 3);
  CHECK(cifar.test.size() == 5);
  const ImageSplits files = read_cifar10(folder.path());
  CHECK(torch::equal(whole(cifar.train).inputs, pixels_of(files.train).to(torch::kFloat).div_(255)));
  CHECK(torch::equal(whole(cifar.train).targets, torch::tensor(files.train.labels)));
}

TEST_CASE("images in shards give the batches of the same images in memory", "[dataset]") {
  const TempFolder folder;
  test::make_cifar10(folder / "cifar", 20, 5, 1);
  const ImageSplits images = read_cifar10(folder / "cifar");
  const ImageSet& set = *find_image_set("cifar10");
  write_image_shards(images,
                     {.channels = 3, .height = 32, .width = 32, .classes = 10, .mean_std = set.mean_std, .flips = true},
                     folder / "shards", 10'000);
  for (const bool augment : {false, true}) {
    const auto load = [&](const char* name, const char* place) {
      return load_dataset({.name = name, .folder = folder / place, .augment = augment, .normalise = true, .seed = 3},
                          at::kCPU);
    };
    const Dataset sharded = load("shards", "shards"), stored = load("cifar10", "cifar");
    CHECK(sharded.train.needs_loading());
    CHECK(sharded.train.augmented() == augment);
    CHECK(sharded.classes == 10);
    CHECK(sharded.shard_records.size() == 5);
    CHECK(same(whole(sharded.train, 2), whole(stored.train, 2)));
    CHECK(same(whole(sharded.test), whole(stored.test)));
    const DistributedSampler sampler({.dataset_size = 20});
    auto ours = make_loader(sharded.train, {.batch_size = 6, .threads = 2}).epoch(sampler),
         theirs = make_loader(stored.train, {.batch_size = 6}).epoch(sampler);
    for (int batch = 0; batch < 4; ++batch) {
      const auto one = ours.next(), other = theirs.next();
      REQUIRE(one);
      REQUIRE(other);
      CHECK(same(*one, *other));
    }
    CHECK_FALSE(ours.next());
    CHECK_FALSE(theirs.next());
    CHECK(sharded.images_json == test::read_file(folder / "shards/images.json"));
  }
}

TEST_CASE("mean and deviation of the digits are found in their images", "[dataset]") {
  const MeanStd found = mean_std_of(find_image_set("digits")->read({}).train);
  REQUIRE(found.mean.size() == 1);
  CHECK(found.mean[0] == Approx(0.3060).margin(0.0001));
  CHECK(found.std[0] == Approx(0.3759).margin(0.0001));
}

TEST_CASE("a batch has the samples of its indices in their order, from a tensor or a list", "[dataset]") {
  const TempFolder folder;
  test::make_text(folder / "text", 2000, 1);
  test::make_cifar10(folder.path(), 20, 5, 1);
  const std::vector<DataSpec> specs{{},
                                    {.name = "cifar10", .folder = folder.path(), .augment = true, .normalise = true},
                                    {.name = "text", .folder = folder / "text", .context = 8},
                                    {.name = "toy"}};
  for (const DataSpec& spec : specs) {
    INFO(spec.name);
    const Dataset data = load_dataset(spec, at::kCPU);
    const Batch all = whole(data.train, 3);
    const std::vector<std::int64_t> indices{5, 0, 19, 5};
    const at::Tensor tensor = torch::tensor(indices);
    const Batch batch = data.train.batch(indices, 3);
    CHECK(same(batch, {all.inputs.index_select(0, tensor), all.targets.index_select(0, tensor)}));
    CHECK(same(data.train.batch(tensor, 3), batch));
    CHECK(same(data.train.batch(torch::tensor({5, 7, 0, 7, 19, 7, 5}).slice(0, 0, 7, 2), 3), batch));  // strided
    CHECK_THROWS(data.train.batch({data.train.size()}, 0));
    CHECK_THROWS(data.train.batch({-1}, 0));
    CHECK_FALSE(batch.inputs.requires_grad());
  }
}

TEST_CASE("a large split kept as bytes gives the same floats as one kept as floats", "[dataset]") {
  const Images images = ramp(16);  // every byte in every channel
  for (const ImageRule& rule : {ImageRule{}, ImageRule{.mean_std = kCifar}}) {
    const Split floats(stored_images(images, rule, at::kCPU));
    for (const std::int64_t limit : {0, 768 * 5, 768 * 5 * 4 - 1})
      CHECK(same(whole(Split(stored_images(images, rule, at::kCPU, limit))), whole(floats)));
  }
}

// "meta" stands for a GPU: its tensors have shapes only.
TEST_CASE("images too large for a device stay beside it as bytes, and so do their indices", "[dataset]") {
  const Images images = ramp(2);
  const ImageRule normal{.mean_std = kCifar};
  const Split beside(stored_images(images, normal, at::kMeta, 12 * 5 - 1)),
      there(stored_images(images, normal, at::kMeta, 12 * 5)), here(stored_images(images, normal, at::kCPU, 0));
  CHECK((beside.needs_loading() && !there.needs_loading() && !here.needs_loading()));
  CHECK((beside.index_device().is_cpu() && there.index_device().is_meta() && here.index_device().is_cpu()));
  auto batches = make_loader(beside, {.batch_size = 2, .threads = 1}).epoch({4, 0}, 0);
  const Batch loaded = *batches.next();
  CHECK(loaded.inputs.scalar_type() == torch::kByte);
  CHECK(torch::equal(loaded.targets, torch::tensor({std::int64_t{5}, std::int64_t{3}})));
  CHECK(loaded.inputs[0].min().item<int>() == 48);
  const Batch delivered = beside.deliver(loaded);
  CHECK((delivered.inputs.is_meta() && delivered.inputs.scalar_type() == torch::kFloat && delivered.targets.is_meta()));
  CHECK(same(here.deliver(loaded), here.batch({4, 0}, 0)));
}

TEST_CASE("a split of floats is taken from in place: its batches are index_selects of one tensor", "[dataset]") {
  const at::Tensor inputs = torch::rand({4, 2}), targets = torch::rand({4, 1});
  const Split split(stored_tensors(inputs, targets));
  inputs[2].fill_(7);  // shared, not copied
  CHECK(split.batch({2}, 0).inputs.min().item<float>() == 7);
}

TEST_CASE("normalised images are those of torchvision's Normalize", "[dataset]") {
  const TempFolder folder;
  test::make_cifar10(folder.path(), 6, 4, 1);
  test::make_mnist(folder.path(), 6, 4, 1);
  const auto check = [&](const std::string& name, const at::Tensor& mean, const at::Tensor& std) {
    const DataSpec spec{.name = name, .folder = name == "digits" ? "" : folder.path().string()};
    DataSpec normal = spec;
    normal.normalise = true;
    const Dataset plain = load_dataset(spec, at::kCPU), data = load_dataset(normal, at::kCPU);
    for (const auto& [a, b] : {std::pair{plain.train, data.train}, std::pair{plain.test, data.test}})
      CHECK(torch::equal(whole(b).inputs, whole(a).inputs.sub(mean).div(std)));
  };
  const auto channel = [](std::vector<float> values) { return torch::tensor(values).view({-1, 1, 1}); };
  check("cifar10", channel({0.4914F, 0.4822F, 0.4465F}), channel({0.2470F, 0.2435F, 0.2616F}));
  check("mnist", channel({0.1307F}), channel({0.3081F}));
  check("digits", channel({0.3060F}), channel({0.3759F}));
  check("synthetic", channel({0.5F}), channel({0.2F}));
  const at::Tensor digits = whole(load_dataset({.normalise = true}, at::kCPU).train).inputs;
  CHECK(std::abs(digits.mean().item<double>()) < 0.001);
  CHECK(std::abs(digits.std().item<double>() - 1) < 0.001);
}

TEST_CASE("augmented images differ by epoch and seed, and those to test on are left alone", "[dataset]") {
  const TempFolder folder;
  test::make_cifar10(folder.path(), 30, 10, 1);
  DataSpec spec{.name = "cifar10", .folder = folder.path(), .seed = 5};
  const Dataset plain = load_dataset(spec, at::kCPU);
  spec.augment = true;
  const Dataset data = load_dataset(spec, at::kCPU);
  CHECK(data.train.augmented());
  CHECK_FALSE(data.test.augmented());
  CHECK_FALSE(plain.train.augmented());
  CHECK(same(whole(data.test, 1), whole(plain.test)));
  const Batch first = whole(data.train, 1);
  CHECK(same(whole(data.train, 1), first));
  CHECK_FALSE(torch::equal(whole(data.train, 2).inputs, first.inputs));
  CHECK_FALSE(torch::equal(first.inputs, whole(plain.train).inputs));
  CHECK(torch::equal(first.targets, whole(plain.train).targets));
  spec.seed = 6;
  CHECK_FALSE(torch::equal(whole(load_dataset(spec, at::kCPU).train, 1).inputs, first.inputs));
}

TEST_CASE("each augmented image is a crop of the padded one, flipped but for digits", "[dataset]") {
  const auto flips_of = [](const Dataset& data, const Dataset& plain, std::int64_t padding) {
    const Batch made = whole(data.train, 1);
    const at::Tensor framed = torch::constant_pad_nd(whole(plain.train).inputs, {padding, padding, padding, padding});
    int flips = 0, found = 0;
    for (std::int64_t i = 0; i < 40; ++i)
      for (const bool flipped : {false, true})
        for (std::int64_t top = 0; top <= 2 * padding; ++top)
          for (std::int64_t left = 0; left <= 2 * padding; ++left) {
            at::Tensor crop = framed[i].slice(1, top, top + data.height).slice(2, left, left + data.width);
            if (flipped) crop = crop.flip(2);
            if (!torch::equal(made.inputs[i], crop)) continue;
            ++found;
            flips += flipped;
          }
    CHECK(found == 40);
    return flips;
  };
  const TempFolder folder;
  test::make_cifar10(folder.path(), 40, 1, 1);
  const auto both = [&](DataSpec spec, std::int64_t padding) {
    const Dataset plain = load_dataset(spec, at::kCPU);
    spec.augment = true;
    return flips_of(load_dataset(spec, at::kCPU), plain, padding);
  };
  const int flips = both({.name = "cifar10", .folder = folder.path()}, 4);
  CHECK((flips > 5 && flips < 35));
  CHECK(both({.name = "digits"}, 1) == 0);
}

TEST_CASE("a loader's batches are the split's own, whatever threads and ranks there are", "[dataset]") {
  const TempFolder folder;
  test::make_cifar10(folder.path(), 50, 10, 1);
  test::make_text(folder / "text", 3000, 1);
  for (const DataSpec& spec :
       {DataSpec{.name = "cifar10", .folder = folder.path(), .augment = true, .normalise = true, .seed = 9},
        DataSpec{.name = "text", .folder = folder / "text", .context = 20}}) {
    INFO(spec.name);
    const Dataset data = load_dataset(spec, at::kCPU);
    for (const int threads : {0, 3})
      for (const int world_size : {1, 2}) {
        DistributedSampler sampler(
            {.dataset_size = data.train.size(), .rank = world_size - 1, .world_size = world_size, .seed = 2});
        sampler.set_epoch(4);
        const auto indices = torch::tensor(sampler.indices()).split(8);
        const BatchLoader loader = make_loader(data.train, {.batch_size = 8, .threads = threads}, true);
        auto batches = loader.epoch(sampler);
        std::size_t count = 0;
        while (const auto batch = batches.next()) {
          REQUIRE(count < indices.size());
          REQUIRE(same(data.train.deliver(*batch), data.train.batch(indices[count++], 4)));
          if (data.train.augmented()) REQUIRE(batch->inputs.is_pinned() == torch::cuda::is_available());
        }
        CHECK(count == indices.size());
      }
  }
}

TEST_CASE("augmented images and shards go to a device as bytes, of which come the floats of the CPU", "[dataset]") {
  const TempFolder folder;
  test::make_cifar10(folder.path(), 12, 4, 1);
  const ImageSplits images = find_image_set("cifar10")->read({.folder = folder.path()});
  write_image_shards(images,
                     {.channels = 3, .height = 32, .width = 32, .classes = 10, .mean_std = mean_std_of(images.train)},
                     folder / "shards", 20'000);
  for (DataSpec spec : {DataSpec{.name = "cifar10", .folder = folder.path(), .augment = true, .seed = 3},
                        DataSpec{.name = "shards", .folder = folder / "shards", .normalise = true}}) {
    INFO(spec.name);
    const Split there = load_dataset(spec, at::kMeta).train, here = load_dataset(spec, at::kCPU).train;
    auto batches = make_loader(there, {.batch_size = 4, .threads = 1}).epoch({7, 0, 11, 7}, 2);
    const Batch loaded = *batches.next();
    CHECK((loaded.inputs.scalar_type() == torch::kByte && there.deliver(loaded).inputs.is_meta()));
    const Batch expected = here.batch({7, 0, 11, 7}, 2);
    CHECK(torch::equal(loaded.targets, expected.targets));
    at::Tensor floats = loaded.inputs.to(torch::kFloat).div(torch::tensor(255.0F));
    if (spec.normalise) {
      const MeanStd found = mean_std_of(images.train);
      floats = floats.sub(torch::tensor(found.mean).view({-1, 1, 1})).div(torch::tensor(found.std).view({-1, 1, 1}));
    }
    CHECK(torch::equal(floats, expected.inputs));
  }
}

// "meta" stands for a GPU.
TEST_CASE("a device makes images of bytes in the layout and type that the forward pass takes", "[dataset]") {
  Images images{.channels = 3, .height = 4, .width = 4, .classes = 10, .labels = {3, 1}};
  images.pixels.resize(48 * 2, 7);
  for (const MeanStd& mean_std : {MeanStd{}, MeanStd{{0.5F, 0.4F, 0.3F}, {0.2F, 0.2F, 0.2F}}}) {
    const Split plain(augmented_images(images, {.mean_std = mean_std}, at::kMeta)),
        fast(augmented_images(images, {.mean_std = mean_std, .channels_last = true, .precision = "bf16"}, at::kMeta)),
        on_cpu(augmented_images(images, {.mean_std = mean_std, .channels_last = true, .precision = "bf16"}, at::kCPU));
    const auto inputs = [](const Split& split) { return split.batch({0, 1, 1}, 0).inputs; };
    CHECK((inputs(plain).scalar_type() == torch::kFloat && inputs(plain).is_contiguous()));
    CHECK(inputs(fast).scalar_type() == torch::kBFloat16);
    CHECK(inputs(fast).is_contiguous(at::MemoryFormat::ChannelsLast));
    CHECK(inputs(on_cpu).scalar_type() == torch::kFloat);
  }
  const at::Tensor floats = torch::rand({3, 50}), divisor = torch::rand({3, 1}) + 0.1;
  at::Tensor half = torch::empty({3, 50}, torch::kBFloat16);
  CHECK(torch::equal(at::div_out(half, floats, divisor), floats.div(divisor).to(torch::kBFloat16)));
}

// "meta" stands for a GPU.
TEST_CASE("only what the CPU has to make is loaded by threads where the data is on a device", "[dataset]") {
  Images images{.channels = 1, .height = 2, .width = 2, .classes = 2, .pixels = {1, 2, 3, 4}, .labels = {1}};
  const Split there(stored_images(images, {}, at::kMeta)), beside(stored_images(images, {}, at::kMeta, 3)),
      here(stored_images(images, {}, at::kCPU)), made(augmented_images(images, {}, at::kCPU)),
      made_for_device(augmented_images(images, {}, at::kMeta));
  constexpr std::int64_t kCores = 16;
  for (const std::int64_t workers : {0, 1, 3}) CHECK_FALSE(loader_threads(there, at::kMeta, workers, kCores));
  CHECK_FALSE(loader_threads(here, at::kCPU, 0, kCores));
  CHECK(loader_threads(here, at::kCPU, 2, kCores) == 2);
  CHECK(loader_threads(made, at::kCPU, 0, kCores) == 0);  // by the training thread
  for (const Split& split : {beside, made_for_device}) {
    CHECK(loader_threads(split, at::kMeta, 7, kCores) == 7);
    CHECK(loader_threads(split, at::kMeta, 0, kCores) == kGpuLoadersMax);
    CHECK(loader_threads(split, at::kMeta, 0, 2) == 2);
    CHECK(loader_threads(split, at::kMeta, 0, 0) == 1);
  }
}

TEST_CASE("a sample out of range is told by the loader", "[dataset]") {
  const Dataset data = load_dataset({.name = "synthetic", .augment = true, .samples = 4}, at::kCPU);
  auto batches = make_loader(data.train, {.batch_size = 2}).epoch({1, 4}, 0);
  CHECK_THROWS_WITH(batches.next(), Contains("cannot load sample 4 of epoch 0"));
}

TEST_CASE("the shipped text is found by its name, as folder or file", "[dataset]") {
  const Dataset data = load_dataset({.name = "text"}, at::kCPU);
  const Dataset folder = load_dataset({.name = "text", .folder = test::source_folder() + "/data/text"}, at::kCPU);
  CHECK(same(whole(data.test), whole(folder.test)));
  const Batch batch = data.train.batch(test::up_to(1), 0);
  const auto* ids = batch.inputs.const_data_ptr<std::int64_t>();
  CHECK_THAT(data.vocabulary.text_of({ids, 64}), Contains("HOW A RIVER WORKS\n\nA river begins"));
}

TEST_CASE("the toy data is 20 features and a number", "[dataset]") {
  const Dataset data = load_dataset({.name = "toy", .seed = 1}, at::kCPU);
  CHECK(data.task == Task::regress);
  CHECK(data.features == 20);
  CHECK(data.train.size() == 2048);
  const Batch batch = data.test.batch({1, 2, 3}, 0);
  CHECK(batch.inputs.sizes() == at::IntArrayRef{3, 20});
  CHECK(batch.targets.sizes() == at::IntArrayRef{3, 1});
  CHECK(batch.inputs.scalar_type() == torch::kFloat);
  // Least squares finds the map: what is left is the noise.
  const Batch train = whole(data.train), test = whole(data.test);
  const auto with_one = [](const at::Tensor& x) { return torch::cat({x, torch::ones({x.size(0), 1})}, 1); };
  const at::Tensor map = std::get<0>(torch::linalg_lstsq(with_one(train.inputs), train.targets));
  CHECK((with_one(test.inputs).matmul(map) - test.targets).std().item<double>() < 0.012);
}

TEST_CASE("synthetic images have the shape of the spec", "[dataset]") {
  const Dataset data = load_dataset(
      {.name = "synthetic", .normalise = true, .samples = 20, .channels = 4, .height = 5, .width = 6, .classes = 3},
      at::kCPU);
  CHECK(whole(data.train).inputs.sizes() == at::IntArrayRef{20, 4, 5, 6});
  CHECK(data.test.size() == 5);
  CHECK(data.classes == 3);
}

TEST_CASE("data that cannot be is refused in a sentence", "[dataset]") {
  const TempFolder folder;
  const auto refusal = [](const DataSpec& spec) {
    return test::error_text<Error>([&] { load_dataset(spec, at::kCPU); });
  };
  CHECK(refusal({.name = "imagenet"}) ==
        "cannot load the data set imagenet: there is no data set of that name. There are digits, mnist, cifar10, text, "
        "synthetic, toy, shards.");
  CHECK_THAT(refusal({.name = "text", .augment = true}),
             Contains("cannot augment the data set text: it has no images"));
  CHECK_THAT(refusal({.name = "toy", .normalise = true}), Contains("cannot normalise the data set toy"));
  CHECK_THAT(refusal({.name = "text", .folder = folder.path()}), Contains((folder / "input.txt").string()));
  folder.write("novel.txt", "");
  CHECK_THAT(refusal({.name = "text", .folder = folder.path()}),
             Contains("is novel.txt. Name the text itself with --data."));
  CHECK_THAT(refusal({.name = "text", .context = -3}), Contains("the context is -3"));
  CHECK_THAT(refusal({.name = "text", .context = 5000}), Contains("characters to test on"));
  CHECK_THAT(refusal({.name = "mnist", .folder = folder.path()}), Contains("train-images-idx3-ubyte"));
  CHECK_THAT(refusal({.name = "cifar10"}), Contains("cannot find the data set cifar10") && Contains("--data"));
  CHECK_THAT(refusal({.name = "synthetic", .samples = 0}), Contains("samples is 0"));
}
