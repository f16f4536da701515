#include "trainer/data/augment.h"

#include <algorithm>
#include <cmath>

#include "rendezvous/base/error.h"

namespace ddprun::train {
namespace {

// Along one side of the window: zeros of the padding, then [first, last) of the image, then zeros again.
struct Span {
  std::int64_t before, first, last;
};

Span visible(std::int64_t offset, std::int64_t padding, std::int64_t size) {
  const std::int64_t begin = offset - padding;  // in the image's own coordinates
  const std::int64_t first = std::clamp<std::int64_t>(begin, 0, size);
  return {std::clamp<std::int64_t>(-begin, 0, size), first, std::clamp(begin + size, first, size)};
}

// What the bytes of a channel become: floats, or the same bytes.
using Floats = std::array<float, 256>;
struct Bytes {};

float* write_bytes(const std::uint8_t* from, const std::uint8_t* end, const Floats& floats, float* to) {
  return std::transform(from, end, to, [&](std::uint8_t byte) { return floats[byte]; });
}
std::uint8_t* write_bytes(const std::uint8_t* from, const std::uint8_t* end, Bytes, std::uint8_t* to) {
  return std::copy(from, end, to);
}
float padding_of(const Floats& floats) { return floats[0]; }
std::uint8_t padding_of(Bytes) { return 0; }

template <class Kind, class Value>
void write_row(const std::uint8_t* row, std::int64_t width, const Span& span, bool flipped, const Kind& kind,
               Value* to) {
  Value* const begin = to;
  to = std::fill_n(to, span.before, padding_of(kind));
  to = write_bytes(row + span.first, row + span.last, kind, to);
  std::fill(to, begin + width, padding_of(kind));
  if (flipped) std::reverse(begin, begin + width);
}

// `kind_of(c)`: of the channel.
template <class KindOf, class Value>
void write_channels(const ImageView& image, const KindOf& kind_of, const CropRule& rule, const Crop& crop, Value* to) {
  const std::int64_t height = image.height, width = image.width;
  const Span rows = visible(crop.top, rule.padding, height), columns = visible(crop.left, rule.padding, width);
  const std::uint8_t* plane = image.pixels;
  for (std::int64_t c = 0; c < image.channels; ++c, plane += height * width) {
    const auto& kind = kind_of(c);
    Value* const end = to + height * width;
    to = std::fill_n(to, rows.before * width, padding_of(kind));
    for (std::int64_t y = rows.first; y < rows.last; ++y, to += width)
      write_row(plane + y * width, width, columns, crop.flipped, kind, to);
    std::fill(to, end, padding_of(kind));
    to = end;
  }
}

}  // namespace

ImageView view_of(const Images& images, std::int64_t index) {
  check(index >= 0 && index < images.size(), "a sample's index is below the number of samples");
  return {images.channels, images.height, images.width, images.pixels.data() + index * images.image_bytes()};
}

Crop draw_crop(const CropRule& rule, SampleRng& rng) {
  Crop crop;
  crop.top = rng.below(2 * rule.padding + 1);
  crop.left = rng.below(2 * rule.padding + 1);
  if (rule.flips) crop.flipped = rng.uniform() < 0.5;
  return crop;
}

MeanStd mean_std_of(const Images& images) {
  MeanStd result;
  const std::int64_t plane = images.height * images.width;
  for (std::int64_t c = 0; c < images.channels; ++c) {
    double sum = 0, squares = 0;  // of whole numbers: exact up to 2^53
    for (std::int64_t i = 0; i < images.size(); ++i) {
      const std::uint8_t* from = view_of(images, i).pixels + c * plane;
      std::int64_t of_image = 0, squares_of_image = 0;
      for (const std::uint8_t* byte = from; byte != from + plane; ++byte) {
        of_image += *byte;
        squares_of_image += std::int64_t{*byte} * *byte;
      }
      sum += static_cast<double>(of_image);
      squares += static_cast<double>(squares_of_image);
    }
    const auto count = static_cast<double>(std::max<std::int64_t>(images.size() * plane, 1));
    const double mean = sum / count, variance = squares / count - mean * mean;
    result.mean.push_back(static_cast<float>(mean / 255));
    result.std.push_back(variance > 1e-6 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0F);
  }
  return result;
}

PixelTable::PixelTable(std::int64_t channels) : floats_(static_cast<std::size_t>(channels)) {
  for (auto& floats : floats_)
    for (std::size_t byte = 0; byte < floats.size(); ++byte) floats[byte] = static_cast<float>(byte) / 255.0F;
}

PixelTable::PixelTable(const MeanStd& mean_std) : PixelTable(static_cast<std::int64_t>(mean_std.mean.size())) {
  for (std::size_t c = 0; c < floats_.size(); ++c)
    for (float& value : floats_[c]) value = (value - mean_std.mean[c]) / mean_std.std[c];
}

void write_image(const ImageView& image, const PixelTable& table, float* to) {
  const std::int64_t plane = image.height * image.width;
  const std::uint8_t* from = image.pixels;
  for (std::int64_t c = 0; c < image.channels; ++c, from += plane)
    to = write_bytes(from, from + plane, table.channel(c), to);
}

void write_crop(const ImageView& image, const PixelTable& table, const CropRule& rule, const Crop& crop, float* to) {
  write_channels(
      image, [&](std::int64_t c) -> const Floats& { return table.channel(c); }, rule, crop, to);
}

void write_crop(const ImageView& image, const CropRule& rule, const Crop& crop, std::uint8_t* to) {
  write_channels(
      image, [](std::int64_t) { return Bytes{}; }, rule, crop, to);
}

}  // namespace ddprun::train
