#include "trainer/data/cifar10.h"

#include "rendezvous/base/error.h"
#include "tests/support/test.h"
#include "tests/trainer/generated_data.h"
#include "trainer/data/cifar10_pickle.h"

using Bytes = std::vector<std::uint8_t>;

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
  return test::error_text<Error>([&] { append_cifar10(images, bytes, "batch"); });
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
      const TempFolder folder;
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
  const TempFolder folder;
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
  const TempFolder folder;
  const auto refused = [&](const std::string& why) {
    CHECK_THROWS_WITH(read_cifar10(folder.path()), Contains(why) && Contains("--data"));
  };
  refused((folder / "data_batch_1.bin").string() + ": it is not in ");
  test::make_cifar10(folder.path(), 10, 2, 3, 5);
  fs::remove(folder / "data_batch_3.bin");
  refused((folder / "data_batch_3.bin").string() + ": it is missing, but " + (folder / "data_batch_4.bin").string());
  fs::remove(folder / "data_batch_4.bin");
  refused((folder / "data_batch_3.bin").string() + ": it is missing, but " + (folder / "data_batch_5.bin").string());
  fs::remove(folder / "data_batch_5.bin");
  fs::remove(folder / "test_batch.bin");
  refused((folder / "test_batch.bin").string() + ": the data set lacks its images to test on; in the folder are ");
}

TEST_CASE("a torn file of CIFAR-10 is named", "[cifar10]") {
  const TempFolder folder;
  test::make_cifar10(folder.path(), 4, 2, 3, 2);
  const std::string whole = test::read_file(folder / "data_batch_2.bin");
  folder.write("data_batch_2.bin", whole.substr(0, whole.size() - 100));
  CHECK_THROWS_WITH(read_cifar10(folder.path()), Contains((folder / "data_batch_2.bin").string()));
}

TEST_CASE("torchvision's files of CIFAR-10 are the same images as the binary ones", "[cifar10]") {
  const TempFolder binary, root;
  test::make_cifar10(binary.path(), 13, 4, 1);
  const ImageSplits expected = read_cifar10(binary.path());
  test::make_cifar10_python(root / "cifar-10-batches-py", 13, 4, 1);
  for (const fs::path& folder : {root.path(), root / "cifar-10-batches-py"}) {
    const ImageSplits data = read_cifar10(folder);
    CHECK(data.train.pixels == expected.train.pixels);
    CHECK(data.train.labels == expected.train.labels);
    CHECK(data.test.pixels == expected.test.pixels);
    CHECK(data.test.labels == expected.test.labels);
  }
}

TEST_CASE("a pickle that is none of CIFAR-10's is one sentence, wherever it is cut or changed", "[cifar10]") {
  const TempFolder folder;
  test::make_cifar10_python(folder.path(), 2, 1, 1);
  const std::string whole = test::read_file(folder / "data_batch_1");
  const auto read = [](const std::string& text) {
    Images images;
    const std::string why = test::error_text<Error>([&] {
      append_cifar10_pickle(images, {text.begin(), text.end()}, "batch");
    });
    CHECK(images.pixels.size() == images.labels.size() * 3072);
    return why;
  };
  CHECK(read(whole).empty());
  const std::size_t head = whole.size() - 2 * 3072;  // the rest are pixels
  for (std::size_t size = 0; size < head; ++size) CHECK_THAT(read(whole.substr(0, size)), Contains("data file batch"));
  for (std::size_t at = 0; at < head; ++at)
    for (const char other : {'\0', '.', '(', 'R', 'b', 'u', 'h', '\xff'}) {
      std::string changed = whole;
      changed[at] = other;
      read(changed);
    }
  const auto replaced = [&](const std::string& part, const std::string& by) {
    std::string text = whole;
    return text.replace(text.find(part), part.size(), by);
  };
  CHECK_THAT(read("cos\nsystem\n(U\x04truetR."), Contains("it calls os.system, which an array of bytes does not need"));
  CHECK_THAT(read(replaced("U\x02u1", "U\x02i4")), Contains("its array is not one of bytes"));
  CHECK_THAT(read(replaced("U\x06labels", "U\x06lebals")), Contains("it has no 'labels' as CIFAR-10's files do"));
  CHECK_THAT(read(replaced(std::string("J\x02\0\0\0", 5), std::string("J\x03\0\0\0", 5))),
             Contains("its 'data' are not 2 images of 3072 bytes"));
  CHECK_THAT(read("\x80\x02"
                  "c_codecs\nencode\n."),
             Contains("Python 3 has written it with protocol 2 or lower"));
  CHECK_THAT(read("\x80\x05}."), Contains("it is a pickle of protocol 5, which is not read (save it with protocol 4"));
  CHECK_THAT(read(std::string(3'000'000, ']')), Contains("it has more values than files of CIFAR-10 have"));
  CHECK_THAT(read("cnumpy\ndtype\n(tR."), Contains("its array is not one of bytes"));
  CHECK_THAT(read("cnumpy.core.multiarray\n_reconstruct\n(tR(K\x01)NK" + std::string(1, '\0') + "U\x01xtb."),
             Contains("its array has not two dimensions"));
  CHECK_THAT(read("no pickle"), Contains("it is not a pickle of the kind that CIFAR-10's files are"));
}
