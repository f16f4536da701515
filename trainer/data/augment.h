// Pads images of bytes with zeros, crops and flips them, and converts them to floats, normalised.
//
// The values equal torchvision's for the same crops: RandomCrop(the image's own size, padding),
// RandomHorizontalFlip(0.5), ToTensor and Normalize(mean, std), to the bit. The random numbers are our own
// (ddprun/sample_rng.h): they depend on (seed, epoch, index), whichever thread or rank loads the sample.
// Source: torchvision/transforms/transforms.py and _functional_tensor.py.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "ddprun/sample_rng.h"
#include "trainer/data/images.h"

namespace ddprun::train {

// How to crop: `padding` zeros around the image, then a window of the image's own size.
struct CropRule {
  std::int64_t padding = 0;
  bool flips = false;  // mirrors left and right with probability 1/2
};

struct Crop {
  std::int64_t top = 0, left = 0;  // of the window in the padded image, 0 .. 2 * padding
  bool flipped = false;
};

// Three draws in this order: top, left, flipped (that one only if the rule flips).
Crop draw_crop(const CropRule& rule, SampleRng& rng);

// Per channel.
struct MeanStd {
  std::vector<float> mean, std;
};

// Of all pixels, as floats from 0 to 1. The deviation of a channel whose pixels are all equal is given as 1.
MeanStd mean_std_of(const Images& images);

// The float for each byte, per channel: byte / 255, and with a mean and deviation (byte / 255 - mean) / std.
class PixelTable {
 public:
  explicit PixelTable(std::int64_t channels);
  explicit PixelTable(const MeanStd& mean_std);

  std::int64_t channels() const { return static_cast<std::int64_t>(floats_.size()); }
  const std::array<float, 256>& channel(std::int64_t c) const { return floats_[static_cast<std::size_t>(c)]; }

 private:
  std::vector<std::array<float, 256>> floats_;
};

// Writes the image, uncropped, to `to`: image.bytes() floats.
void write_image(const ImageView& image, const PixelTable& table, float* to);
// The same, cropped.
void write_crop(const ImageView& image, const PixelTable& table, const CropRule& rule, const Crop& crop, float* to);
// As bytes, of which PixelTable's floats can still be made.
void write_crop(const ImageView& image, const CropRule& rule, const Crop& crop, std::uint8_t* to);

}  // namespace ddprun::train
