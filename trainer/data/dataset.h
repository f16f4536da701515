// Data sets by name, as batches of tensors for one kind of task.
//
//   const Dataset data = load_dataset({.name = "cifar10", .folder = "/data/cifar10", .normalise = true}, device);
//   const Batch batch = data.train.batch(indices, epoch);   // lies on `device`
//   loss = torch::cross_entropy_loss(model->forward(batch.inputs), batch.targets);
//
// What has no files, is malformed or does not fit together is an Error that names the file.
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
  classify,      // images: which of the classes
  predict_next,  // text: each next character
  regress,       // features: a number
};

struct Batch {
  at::Tensor
      inputs;  // images [n, channels, height, width] float, text [n, context] int64, features [n, features] float
  at::Tensor targets;  // classes [n] int64, each next character [n, context] int64, numbers [n, 1] float
};

// Where the samples of a split come from (split.h).
class Source;

// A sample as a loader's threads hand it on: which it is, and how it is cropped and flipped.
struct Pick {
  std::int64_t index = 0;
  Crop crop = {};
};
using BatchLoader = DataLoader<Pick, Batch>;

// The samples to train on, or to test on. A value that shares its samples with its copies; threads may share it.
class Split {
 public:
  Split() = default;
  explicit Split(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  std::int64_t size() const;  // samples
  // Its samples differ from epoch to epoch, and making them takes the CPU's time: a loader makes them ahead.
  bool augmented() const;

  // The samples of these indices, 0 .. size() - 1, on the device of the data set. `indices` is [n] int64, best on that
  // device already, where nothing is augmented: an index_select then is all that happens. `epoch` matters to augmented
  // samples alone.
  Batch batch(const at::Tensor& indices, std::int64_t epoch) const;
  Batch batch(const std::vector<std::int64_t>& indices, std::int64_t epoch) const;

 private:
  friend BatchLoader make_loader(const Split& split, LoaderOptions options, bool pin_memory);
  std::shared_ptr<const Source> source_;
};

// The same batches, made ahead by threads. Those of an augmented split lie in the CPU's memory, with `pin_memory` in
// memory from which a GPU copies while the CPU goes on (without a GPU nothing changes); others where the split lies.
// options.seed is not looked at: the data set's own decides.
BatchLoader make_loader(const Split& split, LoaderOptions options, bool pin_memory = false);

struct Dataset {
  Split train = {}, test = {};
  Task task = Task::classify;
  // Those that are not the task's are 0.
  std::int64_t channels = 0, height = 0, width = 0, classes = 0;  // classify
  std::int64_t context = 0;                                       // predict_next: characters of a sample
  std::int64_t features = 0;                                      // regress
  Vocabulary vocabulary = {};                                     // predict_next; a token's id is its place in it
};

// Error where the name is unknown, the files are missing or malformed, or the spec asks for what cannot be.
Dataset load_dataset(const DataSpec& spec, at::Device device);

}  // namespace ddprun::train
