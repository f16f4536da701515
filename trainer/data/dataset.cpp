#include "trainer/data/dataset.h"

#include <torch/torch.h>

#include <filesystem>

#include "rendezvous/base/error.h"
#include "trainer/data/data_file.h"
#include "trainer/data/image_sets.h"
#include "trainer/data/image_shards.h"
#include "trainer/data/split.h"
#include "trainer/data/synthetic.h"

namespace ddprun::train {
namespace {

namespace fs = std::filesystem;

// The usual 4 for CIFAR-10's 32 pixels, scaled to other sizes.
std::int64_t default_padding(std::int64_t height, std::int64_t width) { return (std::min(height, width) + 7) / 8; }

MeanStd for_channels(MeanStd mean_std, std::int64_t channels) {
  mean_std.mean.resize(static_cast<std::size_t>(channels), mean_std.mean.back());
  mean_std.std.resize(static_cast<std::size_t>(channels), mean_std.std.back());
  return mean_std;
}

Dataset load_images(const ImageSet& set, const DataSpec& spec, at::Device device) {
  ImageSplits images = set.read(spec);
  Dataset data{.task = Task::classify,
               .channels = images.train.channels,
               .height = images.train.height,
               .width = images.train.width,
               .classes = images.train.classes};
  const ImageRule rule{.mean_std = spec.normalise ? for_channels(set.mean_std, data.channels) : MeanStd{},
                       .crop = {.padding = default_padding(data.height, data.width), .flips = set.flips},
                       .seed = spec.seed,
                       .channels_last = spec.channels_last,
                       .precision = spec.precision};
  data.test = Split(stored_images(images.test, rule, device));
  data.train = Split(spec.augment ? augmented_images(std::move(images.train), rule, device)
                                  : stored_images(images.train, rule, device));
  return data;
}

// Their images stay on disk; each is read when its turn comes.
Dataset load_shards(const DataSpec& spec, at::Device device) {
  if (spec.folder.empty())
    throw UsageError("cannot load the data set shards", "no folder is named", "Name it with --data.");
  const ImageShards about = read_image_shards(spec.folder);
  const auto train = std::make_shared<const ShardedDataset>(train_shards(spec.folder)),
             test = std::make_shared<const ShardedDataset>(test_shards(spec.folder));
  const ImageRule rule{.mean_std = spec.normalise ? about.mean_std : MeanStd{},
                       .crop = {.padding = default_padding(about.height, about.width), .flips = about.flips},
                       .seed = spec.seed,
                       .channels_last = spec.channels_last,
                       .precision = spec.precision};
  return {.train = Split(sharded_images(train, about, rule, spec.augment, device)),
          .test = Split(sharded_images(test, about, rule, /*augment=*/false, device)),
          .task = Task::classify,
          .channels = about.channels,
          .height = about.height,
          .width = about.width,
          .classes = about.classes,
          .shard_records = train->shard_records(),
          .images_json = images_json(about)};
}

void reject_image_options(const DataSpec& spec) {
  if (!spec.augment && !spec.normalise) return;
  throw UsageError("cannot " + std::string(spec.augment ? "augment" : "normalise") + " the data set " + spec.name,
                   "it has no images", "Leave that out, or choose a data set of images.");
}

std::string text_file(const DataSpec& spec) {
  const std::string place = find_data(spec.name, spec.folder);
  if (!fs::is_directory(place)) return place;
  const std::string file = place + "/input.txt";
  if (!fs::exists(file))
    throw UsageError("cannot find the data file " + file, "in " + place + " " + what_is_in(place),
                     "Name the text itself with --data.");
  return file;
}

Dataset load_text(const DataSpec& spec, at::Device device) {
  reject_image_options(spec);
  const Windows windows{.context = spec.context, .stride = spec.stride == 0 ? spec.context : spec.stride};
  Text text = read_text(text_file(spec), windows);
  return {.train = Split(text_windows(text.train, windows, device)),
          .test = Split(text_windows(text.test, windows, device)),
          .task = Task::predict_next,
          .context = spec.context,
          .vocabulary = std::move(text.vocabulary)};
}

Split toy_split(const ToySamples& samples, at::Device device) {
  return Split(stored_tensors(tensor_of(samples.features).view({-1, kToyFeatures}).to(device),
                              tensor_of(samples.targets).view({-1, 1}).to(device)));
}

Dataset load_toy(const DataSpec& spec, at::Device device) {
  reject_image_options(spec);
  const ToySplits samples = make_toy(spec.seed);
  return {.train = toy_split(samples.train, device),
          .test = toy_split(samples.test, device),
          .task = Task::regress,
          .features = kToyFeatures};
}

}  // namespace

Dataset load_dataset(const DataSpec& spec, at::Device device) {
  if (const ImageSet* set = find_image_set(spec.name)) return load_images(*set, spec, device);
  if (spec.name == "shards") return load_shards(spec, device);
  if (spec.name == "text") return load_text(spec, device);
  if (spec.name == "toy") return load_toy(spec, device);
  std::string known;
  for (const char* name : kDatasetNames) known += (known.empty() ? "" : ", ") + std::string(name);
  throw UsageError("cannot load the data set " + spec.name, "there is no data set of that name",
                   "There are " + known + ".");
}

}  // namespace ddprun::train
