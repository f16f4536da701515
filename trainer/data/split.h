// The sources of a split's samples, which make batches.
#pragma once
#include <memory>
#include <optional>

#include "ddprun/sharded_dataset.h"
#include "trainer/data/augment.h"
#include "trainer/data/dataset.h"
#include "trainer/data/image_shards.h"
#include "trainer/data/images.h"

namespace ddprun::train {

class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const = 0;
  virtual bool augmented() const { return false; }
  virtual bool needs_loading() const { return augmented(); }
  // Where batch() reads indices without a copy.
  virtual at::Device index_device() const = 0;
  // `indices` is [n] int64 on any device; the batch is on the source's own.
  virtual Batch batch(const at::Tensor& indices, std::int64_t epoch) const = 0;

  // For a loader's threads: the seed of a sample's random numbers, and making a batch of samples.
  virtual std::uint64_t seed() const { return 0; }
  virtual Pick pick(std::int64_t index, SampleRng&) const { return {.index = index}; }
  virtual Batch collate(const std::vector<Pick>& picks, bool pin_memory) const;
  // Makes what collate() left to the source's device. Pinned memory is copied while the host goes on.
  virtual Batch deliver(const Batch& collated) const { return collated; }
};

// Of --precision; empty: float.
std::optional<at::ScalarType> half_type(const std::string& precision);

// How to convert images to floats.
struct ImageRule {
  MeanStd mean_std = {};  // empty: no normalisation
  CropRule crop = {};     // for augmented images
  std::uint64_t seed = 0;
  // Of what a device makes of bytes: the same values as autocast and to_channels_last() would.
  bool channels_last = false;
  std::string precision = "float";
};

// Stored as floats on `device` if they have at most `floats_max` bytes; else as bytes, on `device` if these have at
// most that many, or in CPU memory: then a batch's bytes are copied when its turn comes. The values are the same.
inline constexpr std::int64_t kBytesOnDeviceMax = std::int64_t{256} << 20;
std::shared_ptr<const Source> stored_images(const Images& images, const ImageRule& rule, at::Device device,
                                            std::int64_t bytes_on_device_max = kBytesOnDeviceMax);

// Cropped and flipped anew in each epoch, by the CPU; batch() copies them to `device`.
std::shared_ptr<const Source> augmented_images(Images images, const ImageRule& rule, at::Device device);

// Read from disk in each epoch, by the CPU; cropped and flipped anew with `augment`. batch() copies them to `device`.
std::shared_ptr<const Source> sharded_images(std::shared_ptr<const ShardedDataset> data, const ImageShards& about,
                                             const ImageRule& rule, bool augment, at::Device device);

// inputs [n, ...] and targets [n, ...], on their own device.
std::shared_ptr<const Source> stored_tensors(const at::Tensor& inputs, const at::Tensor& targets);

// Samples of a text's ids.
std::shared_ptr<const Source> text_windows(const std::vector<std::int32_t>& ids, const Windows& windows,
                                           at::Device device);

// A new tensor with these values.
at::Tensor tensor_of(const std::vector<float>& values);

// Threads of a loader for a split's batches; empty: no loader, the training thread takes each batch from where it is.
// So it does with data on a GPU: another thread would gather on a stream of its own, which the step's does not wait
// for. `workers`: of --workers. `cores`: for this rank.
inline constexpr int kGpuLoadersMax = 4;  // one prepares some 9,800 images of 224 x 224 a second (docs/gpu.md)
std::optional<int> loader_threads(const Split& split, at::Device device, std::int64_t workers, std::int64_t cores);

}  // namespace ddprun::train
