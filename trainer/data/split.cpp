#include "trainer/data/split.h"

#include <torch/torch.h>

#include <algorithm>

#include "rendezvous/base/error.h"

namespace ddprun::train {
namespace {

template <class Value>
at::Tensor tensor_copy(const std::vector<Value>& values) {
  at::Tensor result = torch::empty({static_cast<std::int64_t>(values.size())}, c10::CppTypeToScalarType<Value>::value);
  std::copy(values.begin(), values.end(), result.data_ptr<Value>());
  return result;
}

PixelTable table_of(const Images& images, const ImageRule& rule) {
  return rule.mean_std.mean.empty() ? PixelTable(images.channels) : PixelTable(rule.mean_std);
}

std::vector<std::int64_t> batch_shape(const Images& images, std::int64_t size) {
  return {size, images.channels, images.height, images.width};
}

at::Tensor float_images(const Images& images, const ImageRule& rule) {
  const PixelTable table = table_of(images, rule);
  at::Tensor result = torch::empty(batch_shape(images, images.size()));
  float* to = result.data_ptr<float>();
  for (std::int64_t i = 0; i < images.size(); ++i) write_image(images, i, table, to + i * images.image_bytes());
  return result;
}

at::Tensor indices_of(const std::vector<Pick>& picks) {
  std::vector<std::int64_t> indices;
  for (const Pick& pick : picks) indices.push_back(pick.index);
  return tensor_copy(indices);
}

class StoredTensors : public Source {
 public:
  StoredTensors(at::Tensor inputs, at::Tensor targets) : inputs_(std::move(inputs)), targets_(std::move(targets)) {}

  std::int64_t size() const override { return inputs_.size(0); }
  at::Device index_device() const override { return inputs_.device(); }
  Batch batch(const at::Tensor& indices, std::int64_t) const override {
    const at::Tensor here = indices.to(inputs_.device());
    return {inputs_.index_select(0, here), targets_.index_select(0, here)};
  }

 private:
  at::Tensor inputs_, targets_;
};

// The same values as PixelTable's: float division and subtraction round alike on all devices. Each operand is a tensor,
// because LibTorch's GPU kernels multiply by the reciprocal of a scalar instead of dividing by it.
class StoredBytes : public Source {
 public:
  StoredBytes(const Images& images, const ImageRule& rule, at::Device at, at::Device device)
      : pixels_(tensor_copy(images.pixels).view(batch_shape(images, images.size())).to(at)),
        labels_(tensor_copy(images.labels).to(at)),
        byte_max_(torch::full({}, 255.0F, torch::device(device))) {
    if (rule.mean_std.mean.empty()) return;
    mean_ = tensor_copy(rule.mean_std.mean).view({-1, 1, 1}).to(device);
    std_ = tensor_copy(rule.mean_std.std).view({-1, 1, 1}).to(device);
  }

  std::int64_t size() const override { return labels_.size(0); }
  bool needs_loading() const override { return pixels_.device() != byte_max_.device(); }
  at::Device index_device() const override { return pixels_.device(); }
  Batch batch(const at::Tensor& indices, std::int64_t) const override {
    return deliver(taken(indices.to(pixels_.device()), byte_max_.is_cuda() && pixels_.is_cpu()));
  }

  // Bytes where a device is to make floats of them, as they are a quarter.
  Batch collate(const std::vector<Pick>& picks, bool pin_memory) const override {
    return needs_loading() ? taken(indices_of(picks), pin_memory) : Source::collate(picks, pin_memory);
  }
  Batch deliver(const Batch& collated) const override {
    if (collated.inputs.is_floating_point()) return collated;
    const at::Device device = byte_max_.device();
    at::Tensor floats = collated.inputs.to(device, /*non_blocking=*/true).to(torch::kFloat).div_(byte_max_);
    if (mean_.defined()) floats.sub_(mean_).div_(std_);
    return {floats, collated.targets.to(device, /*non_blocking=*/true)};
  }

 private:
  Batch taken(const at::Tensor& indices, bool pin_memory) const {
    if (!pin_memory) return {pixels_.index_select(0, indices), labels_.index_select(0, indices)};
    const auto memory = at::TensorOptions().pinned_memory(true);
    std::vector<std::int64_t> shape = pixels_.sizes().vec();
    shape[0] = indices.size(0);
    at::Tensor pixels = at::empty(shape, memory.dtype(torch::kByte)),
               labels = at::empty({indices.size(0)}, memory.dtype(torch::kLong));
    return {at::index_select_out(pixels, pixels_, 0, indices), at::index_select_out(labels, labels_, 0, indices)};
  }

  at::Tensor pixels_, labels_;
  at::Tensor byte_max_, mean_, std_;  // on the device of the batches
};

class TextWindows : public Source {
 public:
  TextWindows(const std::vector<std::int32_t>& ids, const Windows& windows, at::Device device)
      : ids_(tensor_copy(ids).to(device)),
        steps_(torch::arange(windows.context + 1, torch::device(device).dtype(torch::kLong))),
        windows_(windows) {}

  std::int64_t size() const override { return windows_.count(ids_.size(0)); }
  at::Device index_device() const override { return ids_.device(); }
  Batch batch(const at::Tensor& indices, std::int64_t) const override {
    // An index out of range gives ids out of range, which index_select rejects.
    const at::Tensor places = indices.to(ids_.device()).mul(windows_.stride).unsqueeze(1) + steps_;
    const at::Tensor rows = ids_.index_select(0, places.flatten()).view_as(places).to(torch::kLong);
    return {rows.slice(1, 0, windows_.context).contiguous(), rows.slice(1, 1).contiguous()};
  }

 private:
  at::Tensor ids_, steps_;
  Windows windows_;
};

// Images that the CPU makes one by one: cropped and flipped anew in each epoch, or read from disk.
class LoadedImages : public Source {
 public:
  LoadedImages(const ImageRule& rule, PixelTable table, std::vector<std::int64_t> shape, bool augment,
               at::Device device)
      : rule_(rule), augment_(augment), table_(std::move(table)), shape_(std::move(shape)), device_(device) {}

  bool augmented() const override { return augment_; }
  bool needs_loading() const override { return true; }
  at::Device index_device() const override { return at::kCPU; }
  std::uint64_t seed() const override { return rule_.seed; }

  Batch batch(const at::Tensor& indices, std::int64_t epoch) const override {
    const at::Tensor here = indices.to(at::kCPU).contiguous();
    std::vector<Pick> picks;
    for (std::int64_t i = 0; i < here.numel(); ++i) {
      const std::int64_t index = here.const_data_ptr<std::int64_t>()[i];
      SampleRng rng(rule_.seed, epoch, index);
      picks.push_back(pick(index, rng));
    }
    return deliver(collate(picks, device_.is_cuda()));
  }

  Batch deliver(const Batch& collated) const override {
    return {collated.inputs.to(device_, /*non_blocking=*/true), collated.targets.to(device_, /*non_blocking=*/true)};
  }

  Pick pick(std::int64_t index, SampleRng& rng) const override {
    TORCH_CHECK_INDEX(index >= 0 && index < size(), "index ", index, " out of range: there are ", size(), " images");
    return {index, augment_ ? draw_crop(rule_.crop, rng) : Crop{}};
  }

  Batch collate(const std::vector<Pick>& picks, bool pin_memory) const override {
    const auto count = static_cast<std::int64_t>(picks.size());
    const auto memory = at::TensorOptions().pinned_memory(pin_memory);
    std::vector<std::int64_t> shape{count};
    shape.insert(shape.end(), shape_.begin(), shape_.end());
    at::Tensor inputs = at::empty(shape, memory.dtype(torch::kFloat));
    at::Tensor targets = at::empty({count}, memory.dtype(torch::kLong));
    float* image = inputs.data_ptr<float>();
    std::int64_t* label = targets.data_ptr<std::int64_t>();
    for (const Pick& pick : picks) {
      *label++ = load(pick, image);
      image += shape_[0] * shape_[1] * shape_[2];
    }
    return {inputs, targets};
  }

 protected:
  // Writes the image and returns its label.
  virtual std::int64_t load(const Pick& pick, float* to) const = 0;
  void write(const Images& images, std::int64_t index, const Crop& crop, float* to) const {
    augment_ ? write_crop(images, index, table_, rule_.crop, crop, to) : write_image(images, index, table_, to);
  }

 private:
  ImageRule rule_;
  bool augment_;
  PixelTable table_;
  std::vector<std::int64_t> shape_;  // of an image
  at::Device device_;
};

class AugmentedImages : public LoadedImages {
 public:
  AugmentedImages(Images images, const ImageRule& rule, at::Device device)
      : LoadedImages(rule, table_of(images, rule), {images.channels, images.height, images.width}, true, device),
        images_(std::move(images)) {}

  std::int64_t size() const override { return images_.size(); }

 private:
  std::int64_t load(const Pick& pick, float* to) const override {
    write(images_, pick.index, pick.crop, to);
    return images_.labels[static_cast<std::size_t>(pick.index)];
  }

  Images images_;
};

class ShardedImages : public LoadedImages {
 public:
  ShardedImages(std::shared_ptr<const ShardedDataset> data, const ImageShards& about, const ImageRule& rule,
                bool augment, at::Device device)
      : LoadedImages(rule, table_of({.channels = about.channels}, rule), {about.channels, about.height, about.width},
                     augment, device),
        data_(std::move(data)),
        about_(about) {}

  std::int64_t size() const override { return data_->size(); }

 private:
  std::int64_t load(const Pick& pick, float* to) const override {
    const std::string bytes = data_->read(pick.index);
    const ImageRecord record = decode_image_record(about_, bytes, pick.index);
    const Images one{.channels = about_.channels,
                     .height = about_.height,
                     .width = about_.width,
                     .classes = about_.classes,
                     .pixels = {record.pixels.begin(), record.pixels.end()},
                     .labels = {record.label}};
    write(one, 0, pick.crop, to);
    return record.label;
  }

  std::shared_ptr<const ShardedDataset> data_;
  ImageShards about_;
};

}  // namespace

Batch Source::collate(const std::vector<Pick>& picks, bool) const { return batch(indices_of(picks), 0); }

std::shared_ptr<const Source> stored_images(const Images& images, const ImageRule& rule, at::Device device,
                                            std::int64_t bytes_on_device_max) {
  const auto bytes = static_cast<std::int64_t>(images.pixels.size());
  const auto floats = bytes * static_cast<std::int64_t>(sizeof(float));
  if (floats > bytes_on_device_max)
    return std::make_shared<StoredBytes>(images, rule, bytes > bytes_on_device_max ? at::Device(at::kCPU) : device,
                                         device);
  return stored_tensors(float_images(images, rule).to(device), tensor_copy(images.labels).to(device));
}

std::shared_ptr<const Source> augmented_images(Images images, const ImageRule& rule, at::Device device) {
  return std::make_shared<AugmentedImages>(std::move(images), rule, device);
}

std::shared_ptr<const Source> sharded_images(std::shared_ptr<const ShardedDataset> data, const ImageShards& about,
                                             const ImageRule& rule, bool augment, at::Device device) {
  return std::make_shared<ShardedImages>(std::move(data), about, rule, augment, device);
}

std::shared_ptr<const Source> stored_tensors(const at::Tensor& inputs, const at::Tensor& targets) {
  return std::make_shared<StoredTensors>(inputs, targets);
}

std::shared_ptr<const Source> text_windows(const std::vector<std::int32_t>& ids, const Windows& windows,
                                           at::Device device) {
  return std::make_shared<TextWindows>(ids, windows, device);
}

at::Tensor tensor_of(const std::vector<float>& values) { return tensor_copy(values); }

std::int64_t Split::size() const { return source_ ? source_->size() : 0; }

bool Split::augmented() const { return source_ && source_->augmented(); }

bool Split::needs_loading() const { return source_ && source_->needs_loading(); }

at::Device Split::index_device() const { return source_ ? source_->index_device() : at::kCPU; }

Batch Split::deliver(const Batch& loaded) const {
  check(source_ != nullptr, "a split that batches are taken of has samples");
  return source_->deliver(loaded);
}

Batch Split::batch(const at::Tensor& indices, std::int64_t epoch) const {
  check(source_ != nullptr, "a split that batches are taken of has samples");
  return source_->batch(indices, epoch);
}

Batch Split::batch(const std::vector<std::int64_t>& indices, std::int64_t epoch) const {
  return batch(tensor_copy(indices), epoch);
}

BatchLoader make_loader(const Split& split, LoaderOptions options, bool pin_memory) {
  const auto source = split.source_;
  check(source != nullptr, "a split that batches are taken of has samples");
  options.seed = source->seed();
  const bool pin = pin_memory && torch::cuda::is_available();
  return {[source](std::int64_t index, SampleRng& rng) { return source->pick(index, rng); },
          [source, pin](const std::vector<Pick>& picks) { return source->collate(picks, pin); }, std::move(options)};
}

}  // namespace ddprun::train
