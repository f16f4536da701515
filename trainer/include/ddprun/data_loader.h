// Batches of an epoch in the sampler's order, prefetched by threads.
//
//   DataLoader loader([&](std::int64_t index, SampleRng& rng) { return crop(images[index], rng); }, Collate{},
//                     {.batch_size = 32, .threads = 4, .seed = 1});
//   for (std::int64_t epoch = sampler.epoch(); epoch < 10; ++epoch) {
//     sampler.set_epoch(epoch);
//     auto batches = loader.epoch(sampler);  // from the sampler's position on
//     while (auto batch = batches.next()) {
//       train(*batch);
//       sampler.advance(batches.samples());
//     }
//   }
//
// What is loaded depends on data, indices, seed and epoch, never on the number of threads. Memory is bounded: in
// addition to the caller's batch at most `prefetch` others are ready or being loaded.
//
// If `get` or `collate` throws, next() throws at that batch's turn, as one sentence with the sample's index. `get` and
// `collate` are called by several threads at once; copies of them live until the last Batches is gone. A DataLoader may
// be shared by threads, a Batches belongs to one.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "ddprun/sample_rng.h"

#pragma GCC visibility push(default)
namespace ddprun {

inline constexpr int kLoaderThreadsMax = 256;
inline constexpr int kPrefetchMax = 4096;

struct LoaderOptions {
  std::int64_t batch_size = 1;  // samples; the last batch of an epoch may have fewer
  bool drop_last = false;       // skip that batch
  int threads = 0;              // 0: the caller loads, in next()
  int prefetch = 0;             // batches; 0: two per thread
  std::uint64_t seed = 0;       // of every sample's SampleRng
  // Called first in each thread, to set thread-local state (number of OpenMP threads, NUMA policy).
  std::function<void()> thread_begins = {};
};

namespace detail {

// Throws if the options are invalid.
void check_loader_options(const LoaderOptions& options);
// Called while an exception is handled: rethrows it as a sentence about that sample or batch.
[[noreturn]] void throw_about_sample(std::int64_t index, std::int64_t epoch);
[[noreturn]] void throw_about_batch(std::int64_t first_index, std::int64_t epoch);

// Computes the results of jobs 0 .. jobs - 1 ahead of time and returns them in order.
class JobQueue {
 public:
  // Computes one job's result. May return any result as soon as `stop` is true.
  using Job = std::function<std::shared_ptr<void>(std::int64_t job, const std::atomic<bool>& stop)>;
  JobQueue(std::int64_t jobs, const LoaderOptions& options, Job job);
  ~JobQueue();  // waits for the samples being loaded, not for their batches
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  std::shared_ptr<void> next();  // null after the last; throws what the job threw, then and on every later call

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

// The rest of one epoch. Destroyed early, it stops its threads as soon as their current samples are loaded.
template <class Batch>
class Batches {
 public:
  // Blocks until the next batch is ready; empty after the last one.
  std::optional<Batch> next() {
    const auto loaded = std::static_pointer_cast<Batch>(queue_->next());
    if (!loaded) return std::nullopt;
    samples_ = std::min(batch_size_, left_);
    left_ -= samples_;
    return std::move(*loaded);
  }
  // Number of samples in the batch that next() returned last.
  std::int64_t samples() const { return samples_; }

 private:
  template <class, class>
  friend class DataLoader;
  Batches(std::unique_ptr<detail::JobQueue> queue, std::int64_t batch_size, std::int64_t samples)
      : queue_(std::move(queue)), batch_size_(batch_size), left_(samples) {}

  std::unique_ptr<detail::JobQueue> queue_;
  std::int64_t batch_size_ = 0, left_ = 0, samples_ = 0;
};

template <class Sample, class Batch>
class DataLoader {
 public:
  using Get = std::function<Sample(std::int64_t index, SampleRng& rng)>;
  using Collate = std::function<Batch(std::vector<Sample> samples)>;

  // Throws if the options are invalid.
  DataLoader(Get get, Collate collate, LoaderOptions options)
      : parts_(std::make_shared<const Parts>(std::move(get), std::move(collate), std::move(options))) {
    detail::check_loader_options(parts_->options);
  }

  // Takes a DistributedSampler or any type with indices() and epoch(). Does not advance it, as threads load ahead of
  // the training.
  template <class Sampler>
  Batches<Batch> epoch(const Sampler& sampler) const {
    return epoch(sampler.indices(), sampler.epoch());
  }
  Batches<Batch> epoch(std::vector<std::int64_t> indices, std::int64_t epoch) const {
    const auto samples = static_cast<std::int64_t>(indices.size()), size = parts_->options.batch_size;
    const std::int64_t batches = parts_->options.drop_last ? samples / size : (samples + size - 1) / size;
    auto load = [parts = parts_, indices = std::move(indices), epoch](std::int64_t batch,
                                                                      const std::atomic<bool>& stop) {
      return parts->load(indices, batch, epoch, stop);
    };
    return {std::make_unique<detail::JobQueue>(batches, parts_->options, std::move(load)), size, samples};
  }

 private:
  struct Parts {
    Get get;
    Collate collate;
    LoaderOptions options;

    Parts(Get g, Collate c, LoaderOptions o) : get(std::move(g)), collate(std::move(c)), options(std::move(o)) {}

    std::shared_ptr<void> load(const std::vector<std::int64_t>& indices, std::int64_t batch, std::int64_t epoch,
                               const std::atomic<bool>& stop) const {
      const std::int64_t begin = batch * options.batch_size;
      const std::int64_t end = std::min(begin + options.batch_size, static_cast<std::int64_t>(indices.size()));
      std::vector<Sample> samples;
      samples.reserve(static_cast<std::size_t>(end - begin));
      for (std::int64_t i = begin; i < end; ++i) {
        if (stop) return nullptr;
        const std::int64_t index = indices[static_cast<std::size_t>(i)];
        try {
          SampleRng rng(options.seed, epoch, index);
          samples.push_back(get(index, rng));
        } catch (...) {
          detail::throw_about_sample(index, epoch);
        }
      }
      try {
        return std::make_shared<Batch>(collate(std::move(samples)));
      } catch (...) {
        detail::throw_about_batch(indices[static_cast<std::size_t>(begin)], epoch);
      }
    }
  };

  std::shared_ptr<const Parts> parts_;
};

template <class Get, class Collate>
DataLoader(Get, Collate, LoaderOptions)
    -> DataLoader<std::invoke_result_t<Get&, std::int64_t, SampleRng&>,
                  std::invoke_result_t<Collate&, std::vector<std::invoke_result_t<Get&, std::int64_t, SampleRng&>>>>;

}  // namespace ddprun
#pragma GCC visibility pop
