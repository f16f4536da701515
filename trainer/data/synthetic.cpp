#include "trainer/data/synthetic.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "ddprun/sample_rng.h"
#include "rendezvous/base/error.h"

namespace ddprun::train {
namespace {

constexpr std::int64_t kBytesMax = std::int64_t{4} << 30;
constexpr std::int64_t kMosaic = 4;               // tiles per side
constexpr std::int64_t kMosaicStream = 0x6d6f73;  // separate from the samples' streams

// Streams of random numbers, passed as the epoch.
enum Part : std::int64_t { kTrain = 0, kTest = 1 };

Error synthetic_error(const std::string& why) {
  return Error("cannot make synthetic images", why, "Ask for fewer or smaller ones.");
}

void check_sizes(const DataSpec& spec) {
  std::int64_t bytes = 1;
  for (const auto& [name, size] :
       {std::pair{"classes", spec.classes}, std::pair{"samples", spec.samples}, std::pair{"channels", spec.channels},
        std::pair{"height", spec.height}, std::pair{"width", spec.width}}) {
    if (size < 1)
      throw synthetic_error(std::string(name) + " is " + std::to_string(size) + " and has to be at least 1");
    if (name == std::string("classes")) continue;
    if (size > kBytesMax / bytes) throw synthetic_error("the images to train on would take more than 4 GiB");
    bytes *= size;
  }
}

// 64 .. 191: fits a byte even with noise.
int tile_level(const DataSpec& spec, std::int64_t label, std::int64_t channel, std::int64_t tile) {
  const std::uint64_t number = mixed_seed(mixed_seed(spec.seed, label, channel), tile, kMosaicStream);
  return 64 + static_cast<int>(number >> 57);
}

std::uint8_t* draw_row(std::uint8_t* to, const std::array<int, kMosaic>& levels, std::int64_t width, SampleRng& rng) {
  std::uint64_t noise = 0;
  for (std::int64_t x = 0; x < width; ++x, noise >>= 8) {
    if (x % 8 == 0) noise = rng();
    *to++ = static_cast<std::uint8_t>(levels[static_cast<std::size_t>(x * kMosaic / width)] +
                                      static_cast<int>((noise & 0xff) >> 1) - 64);
  }
  return to;
}

std::uint8_t* draw_image(std::uint8_t* to, const DataSpec& spec, std::int64_t label, SampleRng& rng) {
  for (std::int64_t c = 0; c < spec.channels; ++c)
    for (std::int64_t y = 0; y < spec.height; ++y) {
      std::array<int, kMosaic> levels;
      for (std::int64_t column = 0; column < kMosaic; ++column)
        levels[static_cast<std::size_t>(column)] =
            tile_level(spec, label, c, y * kMosaic / spec.height * kMosaic + column);
      to = draw_row(to, levels, spec.width, rng);
    }
  return to;
}

Images draw_images(const DataSpec& spec, Part part, std::int64_t count) {
  Images images{.channels = spec.channels, .height = spec.height, .width = spec.width, .classes = spec.classes};
  images.pixels.resize(static_cast<std::size_t>(count * images.image_bytes()));
  images.labels.reserve(static_cast<std::size_t>(count));
  std::uint8_t* to = images.pixels.data();
  for (std::int64_t i = 0; i < count; ++i) {
    SampleRng rng(spec.seed, part, i);
    images.labels.push_back(i % spec.classes);
    to = draw_image(to, spec, images.labels.back(), rng);
  }
  return images;
}

// -2.0, 1.8, -1.6, ... : no two features have the same weight.
double toy_weight(std::int64_t feature) {
  const double size = static_cast<double>(kToyFeatures - feature) / 10;
  return feature % 2 ? size : -size;
}

// Mean 0, deviation 1, approximately normal, computed by sums only: twelve uniform numbers.
double noise(SampleRng& rng) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += rng.uniform();
  return sum;
}

ToySamples draw_toy(std::uint64_t seed, Part part, std::int64_t count) {
  ToySamples samples;
  for (std::int64_t i = 0; i < count; ++i) {
    SampleRng rng(seed, part, i);
    double target = 0.5;
    for (std::int64_t feature = 0; feature < kToyFeatures; ++feature) {
      samples.features.push_back(static_cast<float>(rng.uniform()));
      target += toy_weight(feature) * static_cast<double>(samples.features.back());
    }
    samples.targets.push_back(static_cast<float>(target + kToyNoise * noise(rng)));
  }
  return samples;
}

}  // namespace

ImageSplits make_synthetic(const DataSpec& spec) {
  check_sizes(spec);
  return {.train = draw_images(spec, kTrain, spec.samples),
          .test = draw_images(spec, kTest, std::max<std::int64_t>(1, spec.samples / 4))};
}

ToySplits make_toy(std::uint64_t seed) {
  return {.train = draw_toy(seed, kTrain, kToyTrain), .test = draw_toy(seed, kTest, kToyTest)};
}

}  // namespace ddprun::train
