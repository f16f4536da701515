#include "trainer/data/synthetic.h"

#include "tests/support/test.h"

namespace {

const DataSpec kSmall{
    .name = "synthetic", .seed = 3, .samples = 200, .channels = 2, .height = 9, .width = 13, .classes = 7};

DataSpec with(void (*change)(DataSpec&)) {
  DataSpec spec = kSmall;
  change(spec);
  return spec;
}

// The class whose mean image is nearest: what a linear model can find out.
std::size_t nearest(const std::vector<std::vector<double>>& means, const std::uint8_t* pixels) {
  std::vector<double> distances;
  for (const auto& mean : means) {
    double sum = 0;
    for (std::size_t i = 0; i < mean.size(); ++i) sum += (mean[i] - pixels[i]) * (mean[i] - pixels[i]);
    distances.push_back(sum);
  }
  return static_cast<std::size_t>(std::min_element(distances.begin(), distances.end()) - distances.begin());
}

std::vector<std::vector<double>> mean_images(const Images& images) {
  const auto bytes = static_cast<std::size_t>(images.image_bytes());
  std::vector<std::vector<double>> means(static_cast<std::size_t>(images.classes), std::vector<double>(bytes));
  std::vector<double> counts(means.size());
  for (std::size_t i = 0; i < images.labels.size(); ++i) ++counts[static_cast<std::size_t>(images.labels[i])];
  for (std::size_t i = 0; i < images.pixels.size(); ++i) {
    const auto label = static_cast<std::size_t>(images.labels[i / bytes]);
    means[label][i % bytes] += images.pixels[i] / counts[label];
  }
  return means;
}

}  // namespace

TEST_CASE("synthetic images have the shape that was asked for, and all classes", "[synthetic]") {
  const ImageSplits data = make_synthetic(kSmall);
  CHECK(data.train.size() == 200);
  CHECK(data.test.size() == 50);
  CHECK(data.train.pixels.size() == 200 * 2 * 9 * 13);
  CHECK(data.train.classes == 7);
  CHECK(*std::max_element(data.train.labels.begin(), data.train.labels.end()) == 6);
  CHECK(make_synthetic(with([](DataSpec& spec) { spec.samples = 1; })).test.size() == 1);
}

TEST_CASE("synthetic images of equal seeds are equal, of others not, and those to test on are new", "[synthetic]") {
  const ImageSplits data = make_synthetic(kSmall);
  CHECK(make_synthetic(kSmall).train.pixels == data.train.pixels);
  CHECK(make_synthetic(with([](DataSpec& spec) { spec.seed = 4; })).train.pixels != data.train.pixels);
  const auto images = static_cast<std::ptrdiff_t>(data.test.pixels.size());
  CHECK_FALSE(std::equal(data.train.pixels.begin(), data.train.pixels.begin() + images, data.test.pixels.begin()));
}

TEST_CASE("the classes of synthetic images can be learnt", "[synthetic]") {
  const ImageSplits data = make_synthetic(kSmall);
  const auto means = mean_images(data.train);
  int right = 0;
  for (std::int64_t i = 0; i < data.test.size(); ++i)
    right += static_cast<std::int64_t>(nearest(means, data.test.pixels.data() + i * data.test.image_bytes())) ==
             data.test.labels[static_cast<std::size_t>(i)];
  CHECK(right >= 49);  // of 50; by chance 7
}

TEST_CASE("synthetic images spread as their normalisation says", "[synthetic]") {
  const ImageSplits data = make_synthetic({.name = "synthetic", .samples = 500});
  double sum = 0, squares = 0;
  for (const std::uint8_t byte : data.train.pixels) {
    sum += byte / 255.0;
    squares += byte / 255.0 * byte / 255.0;
  }
  const double mean = sum / static_cast<double>(data.train.pixels.size());
  CHECK(std::abs(mean - 0.5) < 0.02);
  CHECK(std::abs(std::sqrt(squares / static_cast<double>(data.train.pixels.size()) - mean * mean) - 0.2) < 0.02);
}

TEST_CASE("impossible synthetic images are refused before memory is taken", "[synthetic]") {
  CHECK_THROWS_WITH(make_synthetic(with([](DataSpec& spec) { spec.height = 0; })),
                    Contains("height is 0 and has to be at least 1"));
  CHECK_THROWS_WITH(make_synthetic(with([](DataSpec& spec) { spec.classes = -1; })), Contains("classes is -1"));
  CHECK_THROWS_WITH(make_synthetic(with([](DataSpec& spec) { spec.samples = INT64_MAX; })),
                    Contains("more than 4 GiB"));
  CHECK_THROWS_WITH(make_synthetic(with([](DataSpec& spec) { spec.width = std::int64_t{1} << 30; })),
                    Contains("more than 4 GiB"));
}

TEST_CASE("the toy data is a linear map of its features, and a little noise", "[synthetic]") {
  const ToySplits data = make_toy(1);
  REQUIRE(data.train.targets.size() == 2048);
  REQUIRE(data.test.features.size() == 512 * 20);
  CHECK(std::all_of(data.train.features.begin(), data.train.features.end(), [](float x) { return x >= 0 && x < 1; }));
  double squares = 0, spread = 0;
  for (std::size_t i = 0; i < data.test.targets.size(); ++i) {
    double target = 0.5;
    for (std::size_t f = 0; f < 20; ++f)
      target +=
          (f % 2 ? 1 : -1) * static_cast<double>(20 - f) / 10 * static_cast<double>(data.test.features[20 * i + f]);
    squares += std::pow(static_cast<double>(data.test.targets[i]) - target, 2);
    spread += std::pow(static_cast<double>(data.test.targets[i]), 2);  // their mean is 0
  }
  CHECK(std::abs(std::sqrt(squares / 512) - kToyNoise) < 0.1 * kToyNoise);
  CHECK(std::abs(std::sqrt(spread / 512) - 1.55) < 0.15);
  CHECK(make_toy(1).train.targets == data.train.targets);
  CHECK(make_toy(2).train.targets != data.train.targets);
  CHECK(make_toy(1).train.features[0] != data.test.features[0]);
}
