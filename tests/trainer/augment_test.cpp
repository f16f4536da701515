#include "trainer/data/augment.h"

#include "ddprun/sample_rng.h"
#include "tests/support/test.h"

namespace {

// Every pixel differs from its neighbours, and no byte is 0 but where the frame is.
Images numbered(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t count = 2) {
  Images images{.channels = channels, .height = height, .width = width, .classes = 1};
  for (std::int64_t i = 0; i < count * images.image_bytes(); ++i)
    images.pixels.push_back(static_cast<std::uint8_t>(1 + i * 7 % 255));
  images.labels.resize(static_cast<std::size_t>(count));
  return images;
}

// The slow twin: each pixel looked up in the framed image.
std::vector<float> slow_crop(const Images& images, std::int64_t index, const PixelTable& table, const CropRule& rule,
                             const Crop& crop) {
  std::vector<float> result;
  for (std::int64_t c = 0; c < images.channels; ++c)
    for (std::int64_t y = 0; y < images.height; ++y)
      for (std::int64_t x = 0; x < images.width; ++x) {
        const std::int64_t from_x = (crop.flipped ? images.width - 1 - x : x) + crop.left - rule.padding;
        const std::int64_t from_y = y + crop.top - rule.padding;
        const bool is_inside = from_x >= 0 && from_x < images.width && from_y >= 0 && from_y < images.height;
        const std::int64_t at = ((index * images.channels + c) * images.height + from_y) * images.width + from_x;
        result.push_back(table.channel(c)[is_inside ? images.pixels[static_cast<std::size_t>(at)] : 0]);
      }
  return result;
}

std::vector<float> fast_crop(const Images& images, std::int64_t index, const PixelTable& table, const CropRule& rule,
                             const Crop& crop) {
  std::vector<float> result(static_cast<std::size_t>(images.image_bytes()), -1);
  write_crop(view_of(images, index), table, rule, crop, result.data());
  return result;
}

// Cropped as bytes, of which floats are made afterwards.
std::vector<float> byte_crop(const Images& images, std::int64_t index, const PixelTable& table, const CropRule& rule,
                             const Crop& crop) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(images.image_bytes()), 255);
  write_crop(view_of(images, index), rule, crop, bytes.data());
  std::vector<float> result(bytes.size());
  write_image({images.channels, images.height, images.width, bytes.data()}, table, result.data());
  return result;
}

}  // namespace

TEST_CASE("a crop has the pixels of its window in the framed image", "[augment]") {
  const PixelTable table(MeanStd{{0.5F, 0.4F}, {0.2F, 0.3F}});
  const std::vector<std::pair<int, int>> sizes{{5, 7}, {1, 1}, {2, 3}};
  for (const auto& [height, width] : sizes)
    for (const std::int64_t padding : {0, 1, 4}) {  // 4: wider than the smallest images, whose windows may be all frame
      const Images images = numbered(2, height, width);
      const CropRule rule{.padding = padding, .flips = true};
      for (std::int64_t top = 0; top <= 2 * padding; ++top)
        for (std::int64_t left = 0; left <= 2 * padding; ++left)
          for (const bool flipped : {false, true}) {
            const Crop crop{top, left, flipped};
            REQUIRE(fast_crop(images, 1, table, rule, crop) == slow_crop(images, 1, table, rule, crop));
            REQUIRE(byte_crop(images, 1, table, rule, crop) == slow_crop(images, 1, table, rule, crop));
          }
    }
}

TEST_CASE("the window in the middle of the frame is the image itself", "[augment]") {
  const Images images = numbered(3, 8, 6);
  const PixelTable table(3);
  std::vector<float> whole(static_cast<std::size_t>(images.image_bytes()));
  write_image(view_of(images, 1), table, whole.data());
  CHECK(whole[0] == static_cast<float>(images.pixels[144]) / 255.0F);
  CHECK(fast_crop(images, 1, table, {.padding = 3}, {.top = 3, .left = 3}) == whole);
}

TEST_CASE("crops are drawn evenly from all places, and every second one flipped", "[augment]") {
  std::map<std::pair<std::int64_t, std::int64_t>, int> places;
  int flipped = 0;
  for (int i = 0; i < 81'000; ++i) {
    SampleRng rng(1, 2, i);
    const Crop crop = draw_crop({.padding = 4, .flips = true}, rng);
    ++places[{crop.top, crop.left}];
    flipped += crop.flipped;
  }
  CHECK(places.size() == 81);
  CHECK(places.begin()->first == std::pair<std::int64_t, std::int64_t>{0, 0});
  CHECK(places.rbegin()->first == std::pair<std::int64_t, std::int64_t>{8, 8});
  for (const auto& [place, count] : places) CHECK(std::abs(count - 1000) < 160);  // five standard deviations
  CHECK(std::abs(flipped - 40'500) < 720);
  for (int i = 0; i < 100; ++i) {
    SampleRng rng(1, 2, i);
    REQUIRE_FALSE(draw_crop({.padding = 4}, rng).flipped);
  }
}

// Changed draws would change the training of everybody who resumes with a newer ddprun.
TEST_CASE("a sample's crop follows from seed, epoch and index and stays what it is", "[augment]") {
  std::vector<std::int64_t> drawn;
  for (const int index : {0, 1, 2}) {
    SampleRng rng(7, 3, index);
    const Crop crop = draw_crop({.padding = 4, .flips = true}, rng);
    drawn.insert(drawn.end(), {crop.top, crop.left, crop.flipped});
  }
  CHECK(drawn == std::vector<std::int64_t>{4, 3, 1, 3, 4, 0, 3, 0, 1});
}

TEST_CASE("mean and deviation are those of all pixels of a channel", "[augment]") {
  const Images images{.channels = 2,
                      .height = 1,
                      .width = 2,
                      .classes = 1,
                      .pixels = {0, 255, 7, 7, 0, 255, 7, 7, 255, 255, 7, 7, 0, 0, 7, 7},
                      .labels = {0, 0, 0, 0}};
  const MeanStd found = mean_std_of(images);
  CHECK(found.mean == std::vector<float>{0.5F, 7 / 255.0F});
  CHECK(found.std == std::vector<float>{0.5F, 1});  // nothing to divide by
  CHECK(mean_std_of({.channels = 1, .height = 2, .width = 2}).std == std::vector<float>{1});
}
