#include "trainer/data/image_shards.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "ddprun/sharded_dataset.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/json_text.h"
#include "rendezvous/base/random_name.h"
#include "trainer/data/data_file.h"

namespace ddprun::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kShardedImages = "ddprun-images";
constexpr std::int64_t kSideMax = 1 << 16, kClassesMax = 1'000'000, kImageBytesMax = 1 << 28;
constexpr std::size_t kLabelBytes = 4;

std::string about_path(const std::string& folder) { return folder + "/images.json"; }

Error unusable_shards(const std::string& folder, const std::string& why) {
  return Error("cannot use the shards in " + folder, why,
               "`train shards FROM TO` writes such a folder from a data set's files.");
}

bool is_possible(const MeanStd& mean_std, std::size_t channels) {
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto positive = [](float value) { return std::isfinite(value) && value > 0; };
  return mean_std.mean.size() == channels && mean_std.std.size() == channels &&
         std::all_of(mean_std.mean.begin(), mean_std.mean.end(), finite) &&
         std::all_of(mean_std.std.begin(), mean_std.std.end(), positive);
}

bool is_possible(const ImageShards& about) {
  for (const std::int64_t size : {about.channels, about.height, about.width})
    if (size < 1 || size > kSideMax) return false;
  const auto channels = static_cast<std::size_t>(about.channels);
  return about.channels <= kImageBytesMax / about.height / about.width && about.classes >= 2 &&
         about.classes <= kClassesMax && is_possible(about.mean_std, channels);
}

void write_split(const Images& images, const std::string& folder, std::int64_t shard_bytes) {
  ShardWriter writer(folder, {.shard_bytes = shard_bytes});
  const auto size = static_cast<std::size_t>(images.image_bytes());
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    const auto label = static_cast<std::uint32_t>(images.labels[i]);
    std::string record;
    for (int shift = 0; shift < 32; shift += 8) record += static_cast<char>(label >> shift & 0xff);
    record.append(reinterpret_cast<const char*>(images.pixels.data()) + i * size, size);
    writer.add(record);
  }
  writer.finish();
}

}  // namespace

bool has_image_shards(const std::string& folder) {
  std::error_code none;
  return fs::exists(about_path(folder), none);
}

std::string train_shards(const std::string& folder) { return folder + "/train"; }
std::string test_shards(const std::string& folder) { return folder + "/test"; }

ImageShards read_image_shards(const std::string& folder) {
  const std::string path = about_path(folder);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::error_code none;
    throw unusable_shards(folder, !fs::is_directory(folder, none)
                                      ? "there is no such folder"
                                      : "there is no images.json in it; in it " + what_is_in(folder));
  }
  const json read = parse_json(std::string{std::istreambuf_iterator<char>(file), {}});
  try {
    if (read.at("format") != kShardedImages || read.at("version") != 1)
      throw unusable_shards(folder, "its images.json is not one of version 1");
    const ImageShards about{.channels = read.at("channels"),
                            .height = read.at("height"),
                            .width = read.at("width"),
                            .classes = read.at("classes"),
                            .mean_std = {read.at("mean"), read.at("std")},
                            .flips = read.at("flips")};
    if (!is_possible(about))
      throw unusable_shards(folder, "the sizes, or mean and std, in its images.json are impossible");
    return about;
  } catch (const json::exception&) {
    throw unusable_shards(folder, "its images.json is damaged, or something else");
  }
}

std::string images_json(const ImageShards& about) {
  const nlohmann::ordered_json json{{"format", kShardedImages},    {"version", 1},
                                    {"channels", about.channels},  {"height", about.height},
                                    {"width", about.width},        {"classes", about.classes},
                                    {"mean", about.mean_std.mean}, {"std", about.mean_std.std},
                                    {"flips", about.flips}};
  return json_text(json, {.indent = 1}) + "\n";
}

void write_image_shards(const ImageSplits& images, const ImageShards& about, const std::string& folder,
                        std::int64_t shard_bytes) {
  check(is_possible(about), "the images to write have a size");
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error("cannot make the folder " + folder, error.message(), "Name another one.");
  write_split(images.train, train_shards(folder), shard_bytes);
  write_split(images.test, test_shards(folder), shard_bytes);
  const std::string path = about_path(folder), temporary = temporary_name(path);
  std::ofstream file(temporary, std::ios::binary);
  file << images_json(about);
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    std::remove(temporary.c_str());
    throw Error("cannot write " + path, why, "Free some space there, or name another folder.");
  }
}

ImageRecord decode_image_record(const ImageShards& about, std::string_view record, std::int64_t number) {
  const auto bytes = static_cast<std::size_t>(about.image_bytes());
  std::int64_t label = 0;
  for (std::size_t i = 0; i < kLabelBytes && i < record.size(); ++i)
    label |= std::int64_t{static_cast<unsigned char>(record[i])} << 8 * i;
  if (record.size() != kLabelBytes + bytes || label >= about.classes)
    throw Error(
        "cannot use record " + std::to_string(number) + " of the shards",
        record.size() != kLabelBytes + bytes
            ? "it has " + std::to_string(record.size()) + " bytes and not " + std::to_string(kLabelBytes + bytes)
            : "its label is " + std::to_string(label) + " and has to be below " + std::to_string(about.classes),
        "Write the shards again.");
  return {label, record.substr(kLabelBytes)};
}

}  // namespace ddprun::train
