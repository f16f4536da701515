// Where the samples of a split lie, and how batches are made of them.
#pragma once
#include <memory>

#include "trainer/data/augment.h"
#include "trainer/data/dataset.h"
#include "trainer/data/images.h"

namespace ddprun::train {

class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const = 0;
  virtual bool augmented() const { return false; }
  // `indices` is [n] int64 on any device; the batch lies on the source's own.
  virtual Batch batch(const at::Tensor& indices, std::int64_t epoch) const = 0;

  // What a loader's threads do: a sample's random numbers, from this seed, and a batch of samples.
  virtual std::uint64_t seed() const { return 0; }
  virtual Pick pick(std::int64_t index, SampleRng&) const { return {.index = index}; }
  virtual Batch collate(const std::vector<Pick>& picks, bool pin_memory) const;
};

// How images become floats.
struct ImageRule {
  MeanStd mean_std = {};  // empty: no normalisation
  CropRule crop = {};     // of augmented ones
  std::uint64_t seed = 0;
};

// As floats on `device` while they have at most `floats_max` bytes; as bytes beyond, on it too while these have no
// more than that. The values are the same.
inline constexpr std::int64_t kBytesOnDeviceMax = std::int64_t{256} << 20;
std::shared_ptr<const Source> stored_images(const Images& images, const ImageRule& rule, at::Device device,
                                            std::int64_t bytes_on_device_max = kBytesOnDeviceMax);

// Cropped and flipped anew in each epoch, by the CPU; batch() brings them to `device`.
std::shared_ptr<const Source> augmented_images(Images images, const ImageRule& rule, at::Device device);

// inputs [n, ...] and targets [n, ...], where they are.
std::shared_ptr<const Source> stored_tensors(const at::Tensor& inputs, const at::Tensor& targets);

// Samples of a text's ids.
std::shared_ptr<const Source> text_windows(const std::vector<std::int32_t>& ids, const Windows& windows,
                                           at::Device device);

// A tensor of its own with these values.
at::Tensor tensor_of(const std::vector<float>& values);

}  // namespace ddprun::train
