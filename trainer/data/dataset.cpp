#include "trainer/data/dataset.h"

#include <torch/torch.h>

#include <filesystem>
#include <map>

#include "rendezvous/base/error.h"
#include "trainer/data/cifar10.h"
#include "trainer/data/data_file.h"
#include "trainer/data/mnist.h"
#include "trainer/data/split.h"
#include "trainer/data/synthetic.h"

namespace ddprun::train {
namespace {

namespace fs = std::filesystem;

// A data set of images: its reader and its usual settings.
struct ImageSet {
  ImageSplits (*read)(const DataSpec& spec);
  MeanStd mean_std;  // of all pixels of a channel in the training images
  bool flips;        // a mirrored image has the same class
};

ImageSplits read_idx_files(const DataSpec& spec) { return read_mnist(find_data(spec.name, spec.folder)); }
ImageSplits read_cifar10_files(const DataSpec& spec) { return read_cifar10(find_data(spec.name, spec.folder)); }

const std::map<std::string, ImageSet> kImageSets{
    // Computed from data/digits.
    {"digits", {read_idx_files, {{0.3060F}, {0.3759F}}, false}},
    // As in pytorch/examples, mnist/main.py.
    {"mnist", {read_idx_files, {{0.1307F}, {0.3081F}}, false}},
    // Of the 50,000 training images, as torchvision's users write them.
    {"cifar10", {read_cifar10_files, {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}}, true}},
    // By construction (synthetic.cpp), for any number of channels.
    {"synthetic", {make_synthetic, {{0.5F}, {0.2F}}, true}},
};

// The usual 4 for CIFAR-10's 32 pixels, scaled to other sizes.
std::int64_t default_padding(const Images& images) { return (std::min(images.height, images.width) + 7) / 8; }

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
                       .crop = {.padding = default_padding(images.train), .flips = set.flips},
                       .seed = spec.seed};
  data.test = Split(stored_images(images.test, rule, device));
  data.train = Split(spec.augment ? augmented_images(std::move(images.train), rule, device)
                                  : stored_images(images.train, rule, device));
  return data;
}

void reject_image_options(const DataSpec& spec) {
  if (!spec.augment && !spec.normalise) return;
  throw UsageError("cannot " + std::string(spec.augment ? "augment" : "normalise") + " the data set " + spec.name,
                   "it has no images", "Leave that out, or choose a data set of images.");
}

std::string text_file(const DataSpec& spec) {
  const std::string place = find_data(spec.name, spec.folder);
  return fs::is_directory(place) ? place + "/input.txt" : place;
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
  if (const auto it = kImageSets.find(spec.name); it != kImageSets.end()) return load_images(it->second, spec, device);
  if (spec.name == "text") return load_text(spec, device);
  if (spec.name == "toy") return load_toy(spec, device);
  std::string known;
  for (const char* name : kDatasetNames) known += (known.empty() ? "" : ", ") + std::string(name);
  throw UsageError("cannot load the data set " + spec.name, "there is no data set of that name",
                   "There are " + known + ".");
}

}  // namespace ddprun::train
