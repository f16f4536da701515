// Data sets by name, as batches of tensors for one kind of task.
//
//   const Dataset data = load_dataset({.name = "cifar10", .folder = "/data/cifar10", .normalise = true}, device);
//   const Batch batch = data.train.batch(indices, epoch);   // lies on `device`
//   loss = torch::cross_entropy_loss(model->forward(batch.inputs), batch.targets);
//
// Throws Error, naming the file, if files are missing, malformed or do not fit together.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "ddprun/data_loader.h"
#include "trainer/data/augment.h"
#include "trainer/data/data_spec.h"
#include "trainer/data/text.h"

namespace ddprun::train {

enum class Task {
  classify,      // images: the class
  predict_next,  // text: each next character
  regress,       // features: a number
};

struct Batch {
  at::Tensor
      inputs;  // images [n, channels, height, width] float, text [n, context] int64, features [n, features] float
  at::Tensor targets;  // classes [n] int64, each next character [n, context] int64, numbers [n, 1] float
};

// The source of a split's samples (split.h).
class Source;

// A sample as a loader's threads pass it on: its index, crop and flip.
struct Pick {
  std::int64_t index = 0;
  Crop crop = {};
};
using BatchLoader = DataLoader<Pick, Batch>;

// The training or test samples. Copies share the samples. Thread-safe.
class Split {
 public:
  Split() = default;
  explicit Split(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  std::int64_t size() const;  // samples
  bool augmented() const;     // its samples differ between epochs
  // They cost CPU time, are on disk, or are beside the device of the data set: use a loader to prefetch them.
  bool needs_loading() const;
  // Where indices are best: batch() copies others.
  at::Device index_device() const;

  // The samples of these indices, 0 .. size() - 1, on the device of the data set. `indices` is [n] int64. `epoch`
  // matters to augmented samples only.
  Batch batch(const at::Tensor& indices, std::int64_t epoch) const;
  Batch batch(const std::vector<std::int64_t>& indices, std::int64_t epoch) const;
  // A loader's batch, as batch() gives it. Copies from pinned memory take place while the host goes on.
  Batch deliver(const Batch& loaded) const;

 private:
  friend BatchLoader make_loader(const Split& split, LoaderOptions options, bool pin_memory);
  std::shared_ptr<const Source> source_;
};

// The same batches, prefetched by threads, for Split::deliver(). Those of a split that needs loading are in CPU memory,
// pinned with `pin_memory` (no effect without a GPU). Ignores options.seed: the data set has its own.
BatchLoader make_loader(const Split& split, LoaderOptions options, bool pin_memory = false);

struct Dataset {
  Split train = {}, test = {};
  Task task = Task::classify;
  // Those of other tasks are 0.
  std::int64_t channels = 0, height = 0, width = 0, classes = 0;  // classify
  std::int64_t context = 0;                                       // predict_next: characters of a sample
  std::int64_t features = 0;                                      // regress
  Vocabulary vocabulary = {};                                     // predict_next; a token's id is its index
  std::vector<std::int64_t> shard_records = {};                   // records of each shard of `train`; empty: no shards
  std::string images_json = {};                                   // what describes the images of shards
};

// Throws Error if the name is unknown, the files are missing or malformed, or the spec is impossible.
Dataset load_dataset(const DataSpec& spec, at::Device device);

}  // namespace ddprun::train
