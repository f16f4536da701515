#include "trainer/data/cifar10.h"

#include <algorithm>
#include <filesystem>

#include "rendezvous/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"
#include "tests/trainer/generated_data.h"

using namespace ddprun;
using namespace ddprun::train;
using Catch::Matchers::Contains;
using Bytes = std::vector<std::uint8_t>;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kRecord = 3073;

// Record i has label i and pixels that count on from i.
Bytes records(std::size_t count) {
  Bytes bytes;
  for (std::size_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<std::uint8_t>(i));
    for (std::size_t pixel = 0; pixel + 1 < kRecord; ++pixel) bytes.push_back(static_cast<std::uint8_t>(i + pixel));
  }
  return bytes;
}

std::string refusal(const Bytes& bytes) {
  Images images;
  try {
    append_cifar10(images, bytes, "batch");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a record of CIFAR-10 is a label and three planes", "[cifar10]") {
  Images images{.channels = 3, .height = 32, .width = 32};
  append_cifar10(images, records(2), "batch");
  append_cifar10(images, records(3), "another");
  CHECK(images.labels == std::vector<std::int64_t>{0, 1, 0, 1, 2});
  REQUIRE(images.pixels.size() == 5 * 3072);
  CHECK(images.pixels[1] == 1);
  CHECK(images.pixels[3072] == 1);             // the second image begins
  CHECK(images.pixels[4 * 3072 + 1024] == 2);  // the third of the second file, green
}

TEST_CASE("what is no CIFAR-10 is refused by file, record and offset", "[cifar10]") {
  CHECK_THAT(refusal({}), Contains("data file batch: it is empty"));
  Bytes bytes = records(2);
  bytes.pop_back();
  CHECK_THAT(refusal(bytes), Contains("it has 6145 bytes, not a multiple of the 3073") &&
                                 Contains("record 1, at offset 3073, is cut short"));
  CHECK_THAT(refusal({1}), Contains("record 0, at offset 0, is cut short"));
  bytes = records(3);
  bytes[2 * kRecord] = 10;
  CHECK_THAT(refusal(bytes), Contains("the label of record 2, at offset 6146, is 10 and has to be from 0 to 9"));
  CHECK(refusal(records(10)).empty());
}

TEST_CASE("CIFAR-10 is read from its folder or the one above, of one to five files", "[cifar10]") {
  for (const int files : {1, 2, 5})
    for (const std::string below : {"", "cifar-10-batches-bin"}) {
      const test::TempFolder folder;
      test::make_cifar10(folder.path() / below, 13, 4, 1, files);
      const ImageSplits data = read_cifar10(folder.path());
      CHECK(data.train.size() == 13);
      CHECK(data.test.size() == 4);
      CHECK(data.train.image_bytes() == 3072);
      CHECK(data.train.pixels.size() == 13 * 3072);
      CHECK(data.train.classes == 10);
    }
}

TEST_CASE("CIFAR-10's files are taken in their order", "[cifar10]") {
  const test::TempFolder folder;
  test::make_cifar10(folder.path(), 9, 1, 7, 3);
  Bytes expected;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin"}) {
    const std::string file = test::read_file(folder / name);
    expected.insert(expected.end(), file.begin(), file.end());
  }
  Images all;
  append_cifar10(all, expected, "all");
  CHECK(read_cifar10(folder.path()).train.pixels == all.pixels);
  CHECK(read_cifar10(folder.path()).train.labels == all.labels);
}

TEST_CASE("a missing file of CIFAR-10 is named", "[cifar10]") {
  const test::TempFolder folder;
  const auto refused = [&](const std::string& why) {
    CHECK_THROWS_WITH(read_cifar10(folder.path()), Contains(why) && Contains("--data"));
  };
  refused((folder / "data_batch_1.bin").string() + ": neither it nor");
  test::make_cifar10(folder.path(), 10, 2, 3, 5);
  fs::remove(folder / "data_batch_3.bin");
  refused((folder / "data_batch_3.bin").string() + ": it is missing, but " + (folder / "data_batch_4.bin").string());
  fs::remove(folder / "data_batch_4.bin");
  refused((folder / "data_batch_3.bin").string() + ": it is missing, but " + (folder / "data_batch_5.bin").string());
  fs::remove(folder / "data_batch_5.bin");
  fs::remove(folder / "test_batch.bin");
  refused((folder / "test_batch.bin").string() + ": there is no such file");
}

TEST_CASE("a torn file of CIFAR-10 is named", "[cifar10]") {
  const test::TempFolder folder;
  test::make_cifar10(folder.path(), 4, 2, 3, 2);
  const std::string whole = test::read_file(folder / "data_batch_2.bin");
  folder.write("data_batch_2.bin", whole.substr(0, whole.size() - 100));
  CHECK_THROWS_WITH(read_cifar10(folder.path()), Contains((folder / "data_batch_2.bin").string()));
}
