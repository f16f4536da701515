#include "trainer/data/cifar10.h"

#include <filesystem>

#include "trainer/data/data_file.h"

namespace ddprun::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kClasses = 10, kChannels = 3, kSide = 32;
constexpr std::size_t kImageBytes = kChannels * kSide * kSide, kRecordBytes = 1 + kImageBytes;
constexpr int kBatchFiles = 5;
// The original files have 10,000 records. A hundred times that still allows users' own files, and is 3 GB.
constexpr std::size_t kFileBytesMax = 1'000'000 * kRecordBytes;

Error missing(const std::string& path, const std::string& why) {
  return Error("cannot find the data file " + path, why,
               "Fetch CIFAR-10's binary version and name the folder that it unpacks to with --data.");
}

std::string batch_path(const std::string& folder, int number) {
  return folder + "/data_batch_" + std::to_string(number) + ".bin";
}

std::string folder_of_files(const std::string& folder) {
  const std::string below = folder + "/cifar-10-batches-bin";
  for (const auto& candidate : {folder, below})
    if (fs::exists(batch_path(candidate, 1))) return candidate;
  throw missing(batch_path(folder, 1), "neither it nor " + batch_path(below, 1) + " exists");
}

// The number of training files, up to the first missing one; no later one may exist.
int count_batches(const std::string& folder) {
  int count = 1;
  while (count < kBatchFiles && fs::exists(batch_path(folder, count + 1))) ++count;
  for (int later = count + 2; later <= kBatchFiles; ++later)
    if (fs::exists(batch_path(folder, later)))
      throw missing(batch_path(folder, count + 1), "it is missing, but " + batch_path(folder, later) + " is there");
  return count;
}

Images empty_images() { return {.channels = kChannels, .height = kSide, .width = kSide, .classes = kClasses}; }

void append_file(Images& images, const std::string& path) {
  append_cifar10(images, read_data_file(path, kFileBytesMax), path);
}

}  // namespace

void append_cifar10(Images& images, const std::vector<std::uint8_t>& bytes, const std::string& name) {
  if (bytes.empty()) throw malformed_data(name, "it is empty");
  const std::size_t records = bytes.size() / kRecordBytes;
  if (bytes.size() % kRecordBytes != 0)
    throw malformed_data(name, "it has " + std::to_string(bytes.size()) + " bytes, not a multiple of the " +
                                   std::to_string(kRecordBytes) + " of a record of CIFAR-10: record " +
                                   std::to_string(records) + ", at offset " + std::to_string(records * kRecordBytes) +
                                   ", is cut short");
  images.pixels.reserve(images.pixels.size() + records * kImageBytes);
  for (std::size_t at = 0; at < bytes.size(); at += kRecordBytes) {
    if (bytes[at] >= kClasses)
      throw malformed_data(name, "the label of record " + std::to_string(at / kRecordBytes) + ", at offset " +
                                     std::to_string(at) + ", is " + std::to_string(bytes[at]) +
                                     " and has to be from 0 to " + std::to_string(kClasses - 1));
    images.labels.push_back(bytes[at]);
    const auto image = bytes.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    images.pixels.insert(images.pixels.end(), image, image + kImageBytes);
  }
}

ImageSplits read_cifar10(const std::string& folder) {
  const std::string files = folder_of_files(folder), test = files + "/test_batch.bin";
  ImageSplits splits{.train = empty_images(), .test = empty_images()};
  const int batches = count_batches(files);
  if (!fs::exists(test)) throw missing(test, "there is no such file");
  for (int number = 1; number <= batches; ++number) append_file(splits.train, batch_path(files, number));
  append_file(splits.test, test);
  return splits;
}

}  // namespace ddprun::train
