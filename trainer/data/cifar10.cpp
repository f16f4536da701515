#include "trainer/data/cifar10.h"

#include <filesystem>

#include "trainer/data/cifar10_pickle.h"
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
               "Fetch CIFAR-10 and name the folder that it unpacks to with --data.");
}

// The files of one of the two versions.
struct BatchFiles {
  std::string folder, ending;  // ".bin", or "" for the Python version

  std::string batch(int number) const { return folder + "/data_batch_" + std::to_string(number) + ending; }
  std::string test() const { return folder + "/test_batch" + ending; }
};

BatchFiles find_files(const std::string& root) {
  const auto has = [](const std::string& folder) {
    return fs::exists(folder + "/data_batch_1.bin") || fs::exists(folder + "/data_batch_1");
  };
  const std::string folder =
      folder_with("data_batch_1.bin", has, root, {"", "cifar-10-batches-bin", "cifar-10-batches-py"});
  return {folder, fs::exists(folder + "/data_batch_1.bin") ? ".bin" : ""};
}

// The number of training files, up to the first missing one; no later one may exist.
int count_batches(const BatchFiles& files) {
  int count = 1;
  while (count < kBatchFiles && fs::exists(files.batch(count + 1))) ++count;
  for (int later = count + 2; later <= kBatchFiles; ++later)
    if (fs::exists(files.batch(later)))
      throw missing(files.batch(count + 1), "it is missing, but " + files.batch(later) + " is there");
  return count;
}

Images empty_images() { return {.channels = kChannels, .height = kSide, .width = kSide, .classes = kClasses}; }

void append_file(Images& images, const std::string& path) {
  const auto bytes = read_data_file(path, kFileBytesMax);
  path.ends_with(".bin") ? append_cifar10(images, bytes, path) : append_cifar10_pickle(images, bytes, path);
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

bool has_cifar10(const std::string& root) {
  for (const char* below : {"/", "/cifar-10-batches-bin/", "/cifar-10-batches-py/"})
    for (const char* name : {"data_batch_1.bin", "data_batch_1"})
      if (fs::exists(root + below + name)) return true;
  return false;
}

ImageSplits read_cifar10(const std::string& root) {
  const BatchFiles files = find_files(root);
  ImageSplits splits{.train = empty_images(), .test = empty_images()};
  const int batches = count_batches(files);
  if (!fs::exists(files.test()))
    throw missing(files.test(), "the data set lacks its images to test on; in the folder " + what_is_in(files.folder));
  for (int number = 1; number <= batches; ++number) append_file(splits.train, files.batch(number));
  append_file(splits.test, files.test());
  return splits;
}

}  // namespace ddprun::train
