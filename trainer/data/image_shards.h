// A data set of images in shards (docs/sharded-datasets.md): a folder with images.json, which describes the images, and
// two sharded data sets, train and test. A record is a label, four bytes with the lowest first, and the image's bytes
// as in Images.
//
// Throws Error, naming the file, if something is missing or malformed.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "trainer/data/augment.h"
#include "trainer/data/images.h"

namespace ddprun::train {

struct ImageShards {
  std::int64_t channels = 1, height = 0, width = 0, classes = 0;
  MeanStd mean_std = {};  // of the images to train on
  bool flips = false;     // a mirrored image has the same class

  std::int64_t image_bytes() const { return channels * height * width; }
};

bool has_image_shards(const std::string& folder);
std::string train_shards(const std::string& folder);
std::string test_shards(const std::string& folder);

ImageShards read_image_shards(const std::string& folder);
// The text of images.json.
std::string images_json(const ImageShards& about);
// Writes images.json last: a folder without it is none of these.
void write_image_shards(const ImageSplits& images, const ImageShards& about, const std::string& folder,
                        std::int64_t shard_bytes);

struct ImageRecord {
  std::int64_t label;
  std::string_view pixels;
};
// `number` is for the message.
ImageRecord decode_image_record(const ImageShards& about, std::string_view record, std::int64_t number);

}  // namespace ddprun::train
