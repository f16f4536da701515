#include "trainer/data/split.h"

#include <torch/torch.h>

#include <algorithm>
#include <functional>

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
  for (std::int64_t i = 0; i < images.size(); ++i)
    write_image(view_of(images, i), table, to + i * images.image_bytes());
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

// Batches of bytes become floats on the device, as bytes are a quarter of what has to be copied to it. The same values
// as PixelTable's: float division and subtraction round alike on all devices. Each operand is a tensor, because
// LibTorch's GPU kernels multiply by the reciprocal of a scalar instead of dividing by it.
class FloatsOfBytes {
 public:
  FloatsOfBytes(const ImageRule& rule, at::Device device)
      : byte_max_(torch::full({}, 255.0F, torch::device(device))),
        layout_(rule.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous),
        type_(device.is_cpu() ? torch::kFloat : half_type(rule.precision).value_or(torch::kFloat)) {
    if (rule.mean_std.mean.empty()) return;
    mean_ = tensor_copy(rule.mean_std.mean).view({-1, 1, 1}).to(device);
    std_ = tensor_copy(rule.mean_std.std).view({-1, 1, 1}).to(device);
  }

  at::Device device() const { return byte_max_.device(); }
  // Pinned memory is copied while the host goes on.
  Batch of(const Batch& collated) const {
    if (collated.inputs.is_floating_point()) return collated;
    at::Tensor floats = collated.inputs.to(device(), /*non_blocking=*/true).contiguous(layout_).to(torch::kFloat);
    if (mean_.defined()) floats.div_(byte_max_).sub_(mean_);
    // The last division rounds to the type that autocast would round to.
    at::Tensor result = type_ == torch::kFloat ? floats : at::empty_like(floats, type_);
    at::div_out(result, floats, mean_.defined() ? std_ : byte_max_);
    return {result, collated.targets.to(device(), /*non_blocking=*/true)};
  }

 private:
  at::Tensor byte_max_, mean_, std_;
  at::MemoryFormat layout_;
  at::ScalarType type_;
};

class StoredBytes : public Source {
 public:
  StoredBytes(const Images& images, const ImageRule& rule, at::Device at, at::Device device)
      : pixels_(tensor_copy(images.pixels).view(batch_shape(images, images.size())).to(at)),
        labels_(tensor_copy(images.labels).to(at)),
        floats_(rule, device) {}

  std::int64_t size() const override { return labels_.size(0); }
  bool needs_loading() const override { return pixels_.device() != floats_.device(); }
  at::Device index_device() const override { return pixels_.device(); }
  Batch batch(const at::Tensor& indices, std::int64_t) const override {
    return deliver(taken(indices.to(pixels_.device()), floats_.device().is_cuda() && pixels_.is_cpu()));
  }

  // Bytes where a device is to make floats of them, as they are a quarter.
  Batch collate(const std::vector<Pick>& picks, bool pin_memory) const override {
    return needs_loading() ? taken(indices_of(picks), pin_memory) : Source::collate(picks, pin_memory);
  }
  Batch deliver(const Batch& collated) const override { return floats_.of(collated); }

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
  FloatsOfBytes floats_;
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
      : rule_(rule), augment_(augment), table_(std::move(table)), shape_(std::move(shape)), floats_(rule, device) {}

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
    return deliver(collate(picks, floats_.device().is_cuda()));
  }

  Batch deliver(const Batch& collated) const override { return floats_.of(collated); }

  Pick pick(std::int64_t index, SampleRng& rng) const override {
    TORCH_CHECK_INDEX(index >= 0 && index < size(), "index ", index, " out of range: there are ", size(), " images");
    return {index, augment_ ? draw_crop(rule_.crop, rng) : Crop{}};
  }

  // Floats at once for a CPU, by a table; bytes for another device.
  Batch collate(const std::vector<Pick>& picks, bool pin_memory) const override {
    const auto memory = at::TensorOptions().pinned_memory(pin_memory);
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(picks.size())};
    shape.insert(shape.end(), shape_.begin(), shape_.end());
    const bool on_cpu = floats_.device().is_cpu();
    const at::Tensor inputs = at::empty(shape, memory.dtype(on_cpu ? torch::kFloat : torch::kByte)),
                     targets = at::empty({shape[0]}, memory.dtype(torch::kLong));
    std::int64_t* label = targets.data_ptr<std::int64_t>();
    const auto load_all = [&](auto* to) {
      for (const Pick& pick : picks) {
        load(pick.index, [&](const ImageView& image, std::int64_t its_label) {
          write(image, pick.crop, to);
          *label++ = its_label;
        });
        to += shape[1] * shape[2] * shape[3];
      }
    };
    on_cpu ? load_all(inputs.data_ptr<float>()) : load_all(inputs.data_ptr<std::uint8_t>());
    return {inputs, targets};
  }

 protected:
  // Hands out the image and its label, for the time of the call.
  using Use = std::function<void(const ImageView& image, std::int64_t label)>;
  virtual void load(std::int64_t index, const Use& use) const = 0;

 private:
  void write(const ImageView& image, const Crop& crop, float* to) const {
    augment_ ? write_crop(image, table_, rule_.crop, crop, to) : write_image(image, table_, to);
  }
  void write(const ImageView& image, const Crop& crop, std::uint8_t* to) const {
    augment_ ? write_crop(image, rule_.crop, crop, to)
             : static_cast<void>(std::copy_n(image.pixels, image.bytes(), to));
  }

  ImageRule rule_;
  bool augment_;
  PixelTable table_;
  std::vector<std::int64_t> shape_;  // of an image
  FloatsOfBytes floats_;
};

class AugmentedImages : public LoadedImages {
 public:
  AugmentedImages(Images images, const ImageRule& rule, at::Device device)
      : LoadedImages(rule, table_of(images, rule), {images.channels, images.height, images.width}, true, device),
        images_(std::move(images)) {}

  std::int64_t size() const override { return images_.size(); }

 private:
  void load(std::int64_t index, const Use& use) const override {
    use(view_of(images_, index), images_.labels[static_cast<std::size_t>(index)]);
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
  void load(std::int64_t index, const Use& use) const override {
    const std::string bytes = data_->read(index);
    const ImageRecord record = decode_image_record(about_, bytes, index);
    use({about_.channels, about_.height, about_.width, reinterpret_cast<const std::uint8_t*>(record.pixels.data())},
        record.label);
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

std::optional<at::ScalarType> half_type(const std::string& precision) {
  if (precision == "bf16") return at::kBFloat16;
  if (precision == "fp16") return at::kHalf;
  return {};
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

std::optional<int> loader_threads(const Split& split, at::Device device, std::int64_t workers, std::int64_t cores) {
  if (!split.needs_loading() && (workers == 0 || !split.index_device().is_cpu())) return {};
  if (device.is_cpu() || workers > 0) return static_cast<int>(workers);
  return static_cast<int>(std::clamp<std::int64_t>(cores, 1, kGpuLoadersMax));
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
