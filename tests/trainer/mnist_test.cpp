#include "trainer/data/mnist.h"

#include "tests/support/test.h"
#include "tests/trainer/generated_data.h"

namespace {

struct Folder : TempFolder {
  Folder() { test::make_mnist(path(), 5, 3, 1); }

  std::string refusal() const {
    return test::error_text([&] { read_mnist(path()); });
  }
  // The refusal with one file other than it should be.
  std::string with(const std::string& name, const std::string& bytes) const {
    const std::string good = test::read_file(*this / name);
    write(name, bytes);
    const std::string sentence = refusal();
    CHECK_THAT(sentence, Contains((*this / name).string()));
    write(name, good);
    return sentence;
  }
  std::string bytes(const std::string& name) const { return test::read_file(*this / name); }
};

}  // namespace

TEST_CASE("MNIST's files are images of one channel and ten classes", "[mnist]") {
  const Folder folder;
  const ImageSplits data = read_mnist(folder.path());
  CHECK(data.train.size() == 5);
  CHECK(data.test.size() == 3);
  CHECK(data.train.channels == 1);
  CHECK(data.train.height == 28);
  CHECK(data.train.width == 28);
  CHECK(data.train.classes == 10);
  CHECK(data.train.labels[4] == folder.bytes("train-labels-idx1-ubyte")[8 + 4]);
  CHECK(data.test.pixels[2 * 784 + 5] ==
        static_cast<std::uint8_t>(folder.bytes("t10k-images-idx3-ubyte")[16 + 2 * 784 + 5]));
}

TEST_CASE("MNIST's files that do not fit each other are told by name", "[mnist]") {
  const Folder folder, others;
  test::make_mnist(others.path(), 4, 3, 2, 8);
  const std::string labels = "train-labels-idx1-ubyte", images = "train-images-idx3-ubyte";
  CHECK_THAT(folder.with(labels, others.bytes(labels)), Contains("it has 4 labels for 5 images"));
  CHECK_THAT(folder.with(images, folder.bytes(labels)), Contains("it has 1 dimensions instead of 3"));
  CHECK_THAT(folder.with(labels, folder.bytes(images)), Contains("it has 3 dimensions instead of 1"));
  CHECK_THAT(folder.with("t10k-images-idx3-ubyte", others.bytes("t10k-images-idx3-ubyte")), Contains("differ in size"));
}

TEST_CASE("a label of MNIST above 9 is told by file and place", "[mnist]") {
  const Folder folder;
  std::string labels = folder.bytes("t10k-labels-idx1-ubyte");
  labels[8 + 2] = 10;
  CHECK_THAT(folder.with("t10k-labels-idx1-ubyte", labels), Contains("label 2 is 10 and has to be from 0 to 9"));
  labels[8 + 2] = 9;
  folder.write("t10k-labels-idx1-ubyte", labels);
  CHECK(folder.refusal().empty());
}

TEST_CASE("a missing or torn file of MNIST is named", "[mnist]") {
  const Folder folder;
  for (const std::string name : {"train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const std::string whole = folder.bytes(name);
    CHECK_THAT(folder.with(name, whole.substr(0, whole.size() - 1)), Contains("but"));
    fs::remove(folder / name);
    CHECK_THAT(folder.refusal(), Contains("cannot find the data file " + (folder / name).string()));
    folder.write(name, whole);
  }
}

TEST_CASE("MNIST's files are found where torchvision puts them, or the message names their folder", "[mnist]") {
  for (const std::string below : {"MNIST/raw", "raw"}) {
    const TempFolder root;
    test::make_mnist(root / below, 5, 3, 1);
    CHECK(read_mnist(root.path()).train.size() == 5);
  }
  const TempFolder root;
  const auto says = [&](const std::string& why) { CHECK_THROWS_WITH(read_mnist(root.path()), EndsWith(why)); };
  const std::string place = root.path();
  says("it is not in " + place + ", " + place + "/MNIST/raw or " + place + "/raw; in " + place +
       " is nothing. Name the folder that holds the data set's files with --data.");
  root.write("mnist.tar.gz", "");
  says("there is only the archive mnist.tar.gz. Unpack it there: tar -xzf " + place + "/mnist.tar.gz -C " + place +
       ".");
  test::make_mnist(root / "FashionMNIST/raw", 5, 3, 1);
  says("it is in " + place + "/FashionMNIST/raw. Pass --data " + place + "/FashionMNIST/raw.");
  CHECK_THROWS_WITH(read_mnist(root / "none"),
                    Contains("cannot find the data file " + (root / "none/train-images").string()) &&
                        Contains("there is no folder " + (root / "none").string() + ". Name "));
  CHECK_THROWS_WITH(read_mnist(root / "mnist.tar.gz"),
                    Contains("is no folder. Name its folder: --data " + place + "."));
  CHECK_THROWS_WITH(read_mnist("~/data/"), Contains("there is no folder ~/data. A shell replaces ~ only"));
}

TEST_CASE("MNIST's files are read under each name that they have where they are offered", "[mnist]") {
  const Folder original;
  const ImageSplits expected = read_mnist(original.path());
  const std::vector<std::string> names{"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                       "t10k-labels-idx1-ubyte"};
  const auto check = [&](const std::function<std::string(std::string)>& named) {
    const TempFolder folder;
    for (const std::string& name : names) {
      const fs::path path = folder / named(name);
      fs::create_directories(path.parent_path());
      fs::copy_file(original / name, path);
    }
    INFO(named(names[2]));
    const ImageSplits data = read_mnist(folder.path().string() + "/");
    CHECK((data.train.pixels == expected.train.pixels && data.train.labels == expected.train.labels));
    CHECK((data.test.pixels == expected.test.pixels && data.test.labels == expected.test.labels));
  };
  const auto with_dot = [](std::string name) { return name.replace(name.find("-idx"), 1, "."); };
  const auto as_emnist = [](std::string name) {
    return "emnist-digits-" + (name.starts_with("t10k") ? name.replace(0, 4, "test") : name) + ".gz";
  };
  check([](const std::string& name) { return name; });
  check([](const std::string& name) { return name + ".gz"; });
  check(with_dot);
  check([&](const std::string& name) { return with_dot(name) + ".gz"; });
  check([](const std::string& name) { return name + "/" + name; });
  check([&](const std::string& name) { return with_dot(name) + "/" + name; });
  check([&](const std::string& name) { return "raw/" + as_emnist(name); });
}

TEST_CASE("MNIST is read beside single files of other sets, and below a folder that has some of it", "[mnist]") {
  const Folder beside;
  fs::copy_file(beside / "train-images-idx3-ubyte", beside / "emnist-digits-train-images-idx3-ubyte");
  CHECK(beside.refusal() == "");
  const TempFolder root;
  test::make_mnist(root / "MNIST/raw", 5, 3, 1);
  root.write("t10k-labels-idx1-ubyte", "stray");
  CHECK(read_mnist(root.path()).train.size() == 5);
}

TEST_CASE("an incomplete MNIST is refused, whatever its files' names, with what is there", "[mnist]") {
  const Folder folder;
  fs::rename(folder / "train-images-idx3-ubyte", folder / "train-images.idx3-ubyte");
  fs::rename(folder / "train-labels-idx1-ubyte", folder / "train-labels.idx1-ubyte");
  CHECK(folder.refusal() == "");
  fs::remove(folder / "t10k-labels-idx1-ubyte");
  CHECK_THAT(folder.refusal(), Contains("the data set lacks its labels to test on; in the folder are "
                                        "t10k-images-idx3-ubyte, train-images.idx3-ubyte and train-labels.idx1-ubyte"));
  fs::remove(folder / "t10k-images-idx3-ubyte");
  CHECK_THAT(folder.refusal(), Contains("the data set lacks its images to test on"));
  for (int i = 0; i < 5; ++i) folder.write("note" + std::to_string(i), "");
  CHECK_THAT(folder.refusal(), Contains("note4, train-images.idx3-ubyte and 1 more."));
  fs::copy_file(folder / "train-labels.idx1-ubyte", folder / "emnist-letters-train-labels-idx1-ubyte");
  CHECK_THAT(folder.refusal(),
             Contains("there are several: files of train-images-idx3-ubyte and of emnist-letters-train"));
}
