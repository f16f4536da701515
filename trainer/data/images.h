// Images of one size with their labels, as bytes.
#pragma once
#include <cstdint>
#include <vector>

namespace ddprun::train {

struct Images {
  std::int64_t channels = 1, height = 0, width = 0;
  std::int64_t classes = 0;
  std::vector<std::uint8_t> pixels = {};  // [size, channels, height, width], the last fastest
  std::vector<std::int64_t> labels = {};  // [size], 0 .. classes - 1

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t image_bytes() const { return channels * height * width; }
};

// One image's bytes, which somebody else holds.
struct ImageView {
  std::int64_t channels = 1, height = 0, width = 0;
  const std::uint8_t* pixels = nullptr;  // [channels, height, width]

  std::int64_t bytes() const { return channels * height * width; }
};

ImageView view_of(const Images& images, std::int64_t index);

// Training and test images, all of one size.
struct ImageSplits {
  Images train = {}, test = {};
};

}  // namespace ddprun::train
