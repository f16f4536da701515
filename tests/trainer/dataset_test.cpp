#include "trainer/dataset.h"

#include <torch/torch.h>

#include "tests/support/catch.h"
#include "tests/support/command.h"
#include "trainer/models/models.h"

using namespace ddprun;
using Catch::Matchers::Contains;

namespace {

std::string idx(std::vector<int> shape) {
  std::string bytes{0, 0, 8, static_cast<char>(shape.size())};
  std::size_t count = 1;
  for (const int size : shape) {
    bytes += {static_cast<char>(size >> 24), static_cast<char>(size >> 16), static_cast<char>(size >> 8),
              static_cast<char>(size)};
    count *= static_cast<std::size_t>(size);
  }
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 255 / (count - 1));  // 0 .. 255
  return bytes;
}

// A small MNIST: five images to train on, three to test, as the real files lie in their folder.
struct Folder : test::TempFolder {
  Folder() {
    write("train-images-idx3-ubyte", idx({5, 28, 28}));
    write("train-labels-idx1-ubyte", idx({5}));
    write("t10k-images-idx3-ubyte", idx({3, 28, 28}));
    write("t10k-labels-idx1-ubyte", idx({3}));
  }
};

}  // namespace

TEST_CASE("images are floats from 0 to 1 with a channel, labels whole numbers", "[dataset]") {
  const Folder folder;
  const Dataset data = load_dataset(folder.path(), at::kCPU);
  CHECK(data.train.images.sizes() == at::IntArrayRef{5, 1, 28, 28});
  CHECK(data.train.images.min().item<float>() == 0);
  CHECK(data.train.images.max().item<float>() == 1);
  CHECK(data.test.size() == 3);
  CHECK(data.train.labels.scalar_type() == at::kLong);
  CHECK(data.classes == 256);
}

TEST_CASE("the ConvNet takes images of any size from 4 by 4 on", "[models]") {
  for (const auto& [height, width] : std::vector<std::pair<int, int>>{{4, 4}, {8, 8}, {28, 28}, {30, 17}})
    CHECK(make_model({.name = "convnet", .height = height, .width = width})
              ->forward(torch::zeros({2, 1, height, width}))
              .sizes() == at::IntArrayRef{2, 10});
  CHECK_THROWS_WITH(make_model({.name = "convnet", .height = 3}), Contains("only 3 by 8 pixels"));
}

TEST_CASE("data files that do not fit each other are told by name", "[dataset]") {
  const Folder folder;
  const auto fails = [&](const char* name, std::vector<int> shape, const std::string& why) {
    const std::string good = test::read_file(folder / name);
    folder.write(name, idx(std::move(shape)));
    CHECK_THROWS_WITH(load_dataset(folder.path(), at::kCPU), Contains((folder / name).string()) && Contains(why));
    folder.write(name, good);
  };
  fails("train-labels-idx1-ubyte", {4}, "it has 4 labels for 5 images");
  fails("train-images-idx3-ubyte", {5, 28}, "it has 2 dimensions instead of 3");
  fails("t10k-labels-idx1-ubyte", {3, 1}, "it has 2 dimensions instead of 1");
  fails("t10k-images-idx3-ubyte", {3, 8, 8}, "differ in size");
}
