#include "trainer/data/image_shards.h"

#include "ddprun/sharded_dataset.h"
#include "tests/support/test.h"
#include "tests/trainer/generated_data.h"
#include "trainer/config/shards_line.h"
#include "trainer/data/cifar10.h"
#include "trainer/data/mnist.h"

namespace {

ImageShards about_cifar() {
  return {.channels = 3,
          .height = 32,
          .width = 32,
          .classes = 10,
          .mean_std = {{0.5F, 0.25F, 0.1F}, {1, 2, 3}},
          .flips = true};
}

}  // namespace

TEST_CASE("images in shards are those that were written, in their order", "[image_shards]") {
  const TempFolder folder;
  test::make_cifar10(folder / "cifar", 13, 4, 1);
  const ImageSplits images = read_cifar10(folder / "cifar");
  const std::string to = folder / "new/shards";
  write_image_shards(images, about_cifar(), to, 10'000);
  REQUIRE(has_image_shards(to));
  const ImageShards about = read_image_shards(to);
  CHECK(about.image_bytes() == 3072);
  CHECK(about.classes == 10);
  CHECK(about.flips);
  CHECK(about.mean_std.mean == about_cifar().mean_std.mean);
  CHECK(about.mean_std.std == about_cifar().mean_std.std);
  const ShardedDataset train(train_shards(to)), test(test_shards(to));
  CHECK(train.shard_records().size() == 4);
  REQUIRE(train.size() == 13);
  CHECK(test.size() == 4);
  std::vector<std::uint8_t> pixels;
  for (std::int64_t i = 0; i < 13; ++i) {
    const std::string bytes = train.read(i);
    const ImageRecord record = decode_image_record(about, bytes, i);
    CHECK(record.label == images.train.labels[static_cast<std::size_t>(i)]);
    pixels.insert(pixels.end(), record.pixels.begin(), record.pixels.end());
  }
  CHECK(pixels == images.train.pixels);
}

TEST_CASE("a folder that is no data set of images in shards is one sentence", "[image_shards]") {
  const TempFolder folder;
  const auto says = [&](const std::string& json, const std::string& why) {
    if (!json.empty()) folder.write("images.json", json);
    CHECK_THROWS_WITH(read_image_shards(folder.path()),
                      StartsWith("cannot use the shards in " + folder.path().string() + ": " + why) &&
                          Contains("train shards FROM TO"));
  };
  says("", "there is no images.json in it; in it is nothing");
  for (const char* text : {"{", "[]", "7", "{}", "{\"format\": 1}", "{\"format\": \"ddprun-images\", \"version\": 1}"})
    says(text, "its images.json is ");
  const auto with = [](const std::string& height, const std::string& mean, const std::string& std = "[1]") {
    return "{\"format\": \"ddprun-images\", \"version\": 1, \"channels\": 1, \"height\": " + height +
           ", \"width\": 8, \"classes\": 10, \"mean\": " + mean + ", \"std\": " + std + ", \"flips\": false}";
  };
  says(with("0", "[0]"), "the sizes, or mean and std, in its images.json are impossible");
  says(with("9223372036854775807", "[0]"), "the sizes, or mean and std, in its images.json are impossible");
  says(with("8", "[0, 0]"), "the sizes, or mean and std, in its images.json are impossible");
  for (const char* std : {"[0]", "[-1]", "[1e60]", "[1, 1]"})
    says(with("8", "[0]", std), "the sizes, or mean and std, in its images.json are impossible");
  says(with("8", "[1e60]"), "the sizes, or mean and std, in its images.json are impossible");
  says(with("\"a\"", "[0]"), "its images.json is damaged, or something else");
  folder.write("images.json", with("8", "[0]"));
  CHECK(read_image_shards(folder.path()).height == 8);
  // And the message of a reader of files names it.
  CHECK_THROWS_WITH(read_mnist(folder.path()), Contains("Pass --dataset shards with it."));
}

TEST_CASE("a record of another size or label is one sentence", "[image_shards]") {
  const ImageShards about = about_cifar();
  CHECK(decode_image_record(about, std::string("\7\0\0\0", 4) + std::string(3072, 'x'), 1).label == 7);
  CHECK_THROWS_WITH(decode_image_record(about, "abc", 1), Contains("record 1") && Contains("3 bytes and not 3076"));
  CHECK_THROWS_WITH(decode_image_record(about, std::string("\0\1\0\0", 4) + std::string(3072, 'x'), 1),
                    Contains("its label is 256 and has to be below 10"));
}

TEST_CASE("train shards takes two folders and a size", "[image_shards]") {
  const ShardsLine line = read_shards_line({"from", "to", "--shard-size=2M", "--dataset", "mnist"});
  CHECK_FALSE(line.early_exit);
  CHECK(line.from == "from");
  CHECK(line.to == "to");
  CHECK(line.dataset == "mnist");
  CHECK(line.shard_bytes == 2 << 20);
  CHECK(read_shards_line({"--help"}).early_exit->code == 0);
  const auto says = [](std::vector<std::string> words) {
    const auto early_exit = read_shards_line(std::move(words)).early_exit;
    REQUIRE(early_exit);
    CHECK(early_exit->code == 2);
    return early_exit->text;
  };
  CHECK_THAT(says({"from"}), Contains("takes two folders, FROM and TO"));
  CHECK_THAT(says({"from", "to", "--shard-size=0"}), Contains("--shard-size is '0'"));
  CHECK_THAT(says({"from", "to", "--shard-size=big"}), Contains("--shard-size is 'big'"));
  CHECK_THAT(says({"from", "to", "--dataset=text"}), StartsWith("train: --dataset: "));
}
